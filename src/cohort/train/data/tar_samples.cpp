#include "cohort/train/data/tar_samples.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::uint64_t kMostNameBytes = 1 << 20;  // of a long name or a pax header

using TarBlock = std::array<char, kTarBlock>;

// An open archive; complaints name an offset.
class TarFile {
 public:
  explicit TarFile(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!fd_)
      throw InvalidInput(
          fmt::format("'{}' cannot be opened: {}", path.string(), std::strerror(errno)));
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode))
      throw InvalidInput(fmt::format("'{}' is not a regular file", path.string()));
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

  [[noreturn]] void refuse(std::uint64_t offset, const std::string& problem) const {
    throw InvalidInput(fmt::format("'{}' at byte {}: {}", path_.string(), offset, problem),
                       {.advice = "Make it again with tar, not compressed."});
  }

  void read(std::uint64_t offset, char* out, std::uint64_t size) const {
    while (size > 0) {
      const ssize_t count =
          ::pread(fd_.get(), out, static_cast<std::size_t>(size), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(offset, fmt::format("cannot be read: {}", std::strerror(errno)));
      if (count == 0) refuse(offset, "the archive ends here: it has become shorter");
      out += count;
      offset += static_cast<std::uint64_t>(count);
      size -= static_cast<std::uint64_t>(count);
    }
  }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

// Walks through the headers of an archive.
class TarWalk {
 public:
  explicit TarWalk(const TarFile& file) : file_(file) {}

  // The next regular file; nothing at the end.
  std::optional<TarMember> next() {
    while (at_ < file_.bytes()) {
      if (file_.bytes() - at_ < kTarBlock) file_.refuse(at_, "the archive is cut off in a header");
      file_.read(at_, block_.data(), kTarBlock);
      if (std::all_of(block_.begin(), block_.end(), [](char byte) { return byte == 0; }))
        return std::nullopt;
      if (auto member = take_header()) return member;
    }
    return std::nullopt;
  }

 private:
  std::string_view field(std::size_t offset, std::size_t size) const {
    const std::string_view whole(block_.data() + offset, size);
    return whole.substr(0, whole.find('\0'));
  }

  std::optional<TarMember> take_header() {
    const std::uint64_t header = at_;
    check_sum();
    const char type = block_[156];
    std::uint64_t bytes = number(124, 12, "size");
    if (is_regular(type) && pax_size_) bytes = *pax_size_;
    const std::uint64_t begin = at_ + kTarBlock;
    if (bytes > file_.bytes() - begin)
      file_.refuse(header, fmt::format("a member of {} bytes goes past the archive's end at {}",
                                       bytes, file_.bytes()));
    const std::uint64_t padded = (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
    at_ = begin + std::min(padded, file_.bytes() - begin);
    if (type == 'L') long_name_ = text(begin, bytes);
    if (type == 'x') read_pax(begin, text(begin, bytes));
    if (type == 'S') file_.refuse(header, "a sparse file, which is not known here");
    if (type == 'L' || type == 'x' || type == 'K' || type == 'g') return std::nullopt;
    std::string name = member_name();
    long_name_.reset();
    pax_name_.reset();
    pax_size_.reset();
    if (!is_regular(type)) return std::nullopt;
    return TarMember{std::move(name), header, begin, bytes};
  }

  static bool is_regular(char type) { return type == '0' || type == '\0' || type == '7'; }

  std::string member_name() const {
    if (pax_name_) return *pax_name_;
    if (long_name_) return *long_name_;
    std::string name(field(0, 100));
    // GNU's own format has other fields where ustar has the prefix.
    if (std::string_view(block_.data() + 257, 6) == std::string_view("ustar\0", 6))
      if (const std::string_view prefix = field(345, 155); !prefix.empty())
        name = fmt::format("{}/{}", prefix, name);
    return name;
  }

  void check_sum() const {
    const std::uint64_t expected = number(148, 8, "checksum");
    std::uint64_t unsigned_sum = 8 * ' ';
    std::int64_t signed_sum = 8 * ' ';  // as some old programs add
    for (std::size_t i = 0; i < kTarBlock; ++i) {
      if (i >= 148 && i < 156) continue;
      unsigned_sum += static_cast<unsigned char>(block_[i]);
      signed_sum += static_cast<signed char>(block_[i]);
    }
    if (expected != unsigned_sum && static_cast<std::int64_t>(expected) != signed_sum)
      file_.refuse(
          at_, fmt::format("a header's checksum is {}, its bytes give {}", expected, unsigned_sum));
  }

  // Octal digits; or, with the first bit set, as GNU has for large ones, the bytes of the number.
  std::uint64_t number(std::size_t offset, std::size_t size, const char* what) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(block_.data()) + offset;
    std::uint64_t value = 0;
    if (bytes[0] & 0x80) {
      for (std::size_t i = 0; i < size; ++i) {
        if (value >> 54) file_.refuse(at_, fmt::format("a header's {} is too large", what));
        value = value << 8 | (i == 0 ? bytes[0] & 0x7fu : bytes[i]);
      }
      return value;
    }
    const std::string_view digits = trim(field(offset, size));
    for (const char digit : digits) {
      if (digit < '0' || digit > '7')
        file_.refuse(at_,
                     fmt::format("no tar header: its {} is '{}'", what, escape_controls(digits)));
      value = value << 3 | static_cast<std::uint64_t>(digit - '0');
    }
    return value;
  }

  std::string text(std::uint64_t begin, std::uint64_t bytes) const {
    if (bytes > kMostNameBytes)
      file_.refuse(begin,
                   fmt::format("a name of {} bytes; at most {} allowed", bytes, kMostNameBytes));
    std::string value(static_cast<std::size_t>(bytes), '\0');
    file_.read(begin, value.data(), bytes);
    if (block_[156] == 'L') value = value.substr(0, value.find('\0'));
    return value;
  }

  // Records "LENGTH KEY=VALUE\n", where the length is that of the record.
  void read_pax(std::uint64_t begin, std::string_view records) {
    while (!records.empty()) {
      const std::size_t space = records.find(' ');
      const auto length = parse_unsigned(records.substr(0, space));
      if (space == std::string_view::npos || !length || *length > records.size() ||
          *length < space + 2 || records[*length - 1] != '\n')
        file_.refuse(begin, "a damaged pax header");
      const std::string_view record = records.substr(space + 1, *length - space - 2);
      records.remove_prefix(*length);
      const std::size_t equals = record.find('=');
      if (equals == std::string_view::npos) file_.refuse(begin, "a damaged pax header");
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key == "path") pax_name_ = std::string(value);
      if (key == "size") {
        pax_size_ = parse_unsigned(value);
        if (!pax_size_) file_.refuse(begin, "a pax header's size is no number");
      }
      if (key.starts_with("GNU.sparse"))
        file_.refuse(begin, "a sparse file, which is not known here");
    }
  }

  const TarFile& file_;
  std::uint64_t at_ = 0;
  TarBlock block_{};
  std::optional<std::string> long_name_, pax_name_;  // of the next member
  std::optional<std::uint64_t> pax_size_;
};

std::vector<TarMember> tar_index(const TarFile& file) {
  std::array<char, 4> begin{};
  if (file.bytes() >= begin.size()) file.read(0, begin.data(), begin.size());
  const std::string_view magic(begin.data(), begin.size());
  if (magic.starts_with("\x1f\x8b") || magic.starts_with("BZh") || magic == "\x28\xb5\x2f\xfd" ||
      magic ==
          "\xfd"
          "7zX")
    file.refuse(0, "the archive is compressed, and samples are read by their place in it");
  std::vector<TarMember> members;
  TarWalk walk(file);
  while (auto member = walk.next()) members.push_back(*std::move(member));
  return members;
}

// "a/b.c/0001.seg.png" is "a/b.c/0001" and "seg.png"; nothing for a file that groups with none.
std::optional<std::pair<std::string, std::string>> key_and_extension(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) return std::nullopt;
  std::string extension = name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32)
                                          : static_cast<char>(letter);
  });
  return std::pair(name.substr(0, dot), std::move(extension));
}

}  // namespace

std::vector<TarMember> read_tar_index(const std::filesystem::path& path) {
  return tar_index(TarFile(path));
}

const std::string& TarSample::file(const std::string& extension) const {
  const auto found = files.find(extension);
  if (found != files.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, bytes] : files) known.push_back(escape_controls(name));
  throw InvalidInput(
      fmt::format("{} has no .{}; it has .{}", origin, extension, join(known, ", .")),
      {.advice = "Decode what the archives have."});
}

struct TarSamples::Content {
  struct Part {
    std::string extension;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Sample {
    std::size_t archive = 0;
    std::string key;
    std::uint64_t header = 0;
    std::vector<Part> parts;
  };

  void add(std::size_t archive, const TarMember& member) {
    auto names = key_and_extension(member.name);
    if (!names) return;
    auto& [key, extension] = *names;
    if (samples.empty() || samples.back().archive != archive || samples.back().key != key)
      samples.push_back({archive, std::move(key), member.header, {}});
    for (const Part& part : samples.back().parts)
      if (part.extension == extension)
        archives[archive].refuse(member.header, fmt::format("sample '{}' has .{} twice",
                                                            escape_controls(samples.back().key),
                                                            escape_controls(extension)));
    samples.back().parts.push_back({std::move(extension), member.offset, member.bytes});
  }

  std::vector<TarFile> archives;
  std::vector<Sample> samples;
};

TarSamples::TarSamples(const std::vector<std::filesystem::path>& archives) {
  auto content = std::make_unique<Content>();
  for (const auto& path : archives) {
    content->archives.emplace_back(path);
    const std::size_t archive = content->archives.size() - 1;
    for (const TarMember& member : tar_index(content->archives.back()))
      content->add(archive, member);
  }
  if (content->samples.empty())
    throw InvalidInput(archives.empty()
                           ? std::string("no tar archive was given")
                           : fmt::format("'{}' and the archives after it have no samples",
                                         archives.front().string()),
                       {.advice = "Name the files of a sample alike: 0001.npy, 0001.cls."});
  content_ = std::move(content);
}

TarSamples::TarSamples(TarSamples&&) noexcept = default;
TarSamples::~TarSamples() = default;

std::int64_t TarSamples::size() const {
  return static_cast<std::int64_t>(content_->samples.size());
}

TarSample TarSamples::read(std::int64_t index) const {
  check_indices({&index, 1}, size());
  const Content::Sample& found = content_->samples[static_cast<std::size_t>(index)];
  const TarFile& archive = content_->archives[found.archive];
  TarSample sample{.key = found.key,
                   .files = {},
                   .origin = fmt::format("'{}', sample '{}' at byte {}", archive.path().string(),
                                         escape_controls(found.key), found.header)};
  for (const Content::Part& part : found.parts) {
    std::string bytes(static_cast<std::size_t>(part.bytes), '\0');
    archive.read(part.offset, bytes.data(), part.bytes);
    sample.files.emplace(part.extension, std::move(bytes));
  }
  return sample;
}

}  // namespace cohort::train
