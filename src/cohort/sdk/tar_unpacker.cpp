#include "cohort/sdk/tar_unpacker.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::sdk {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostText = 1 << 20;  // of a pax or long name entry

// Where the fields of a header are (POSIX ustar).
struct Field {
  std::size_t begin, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kSize{124, 12}, kChecksum{148, 8}, kPrefix{345, 155};
constexpr std::size_t kType = 156, kMagic = 257;

std::string tar_text(const char* block, Field field) {
  const char* begin = block + field.begin;
  return {begin, ::strnlen(begin, field.size)};
}

[[noreturn]] void throw_broken(const std::string& why) {
  throw InvalidInput("the archive that the service sent is broken: " + why,
                     {.advice = "Try again; if it stays so, look at the service's log."});
}

std::uint64_t tar_number(const char* block, Field field) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(block + field.begin);
  std::uint64_t number = 0;
  if (bytes[0] & 0x80) {  // GNU: base 256
    for (std::size_t i = field.size - 8; i < field.size; ++i) number = number << 8 | bytes[i];
    return number;
  }
  for (const char digit : trim(tar_text(block, field))) {
    if (digit < '0' || digit > '7') throw_broken("a number of a header is none");
    number = number << 3 | static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

void require_checksum(const char* block) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(block);
  std::uint64_t sum = std::accumulate(bytes, bytes + kBlock, std::uint64_t{0});
  for (std::size_t i = 0; i < kChecksum.size; ++i) sum += ' ' - bytes[kChecksum.begin + i];
  if (sum != tar_number(block, kChecksum)) throw_broken("the checksum of a header is wrong");
}

// The parts of a name, of which none leads out.
std::vector<std::string> safe_parts(const std::string& name) {
  std::vector<std::string> parts;
  if (!name.starts_with('/'))
    for (const auto& part : split(name, '/')) {
      if (part.empty() || part == ".") continue;
      if (part == ".." || part.find('\0') != part.npos) {
        parts.clear();
        break;
      }
      parts.push_back(part);
    }
  if (parts.empty() && name != "." && name != "./")
    throw InvalidInput(fmt::format("the archive holds '{}', which leads out of the folder",
                                   escape_controls(name)));
  return parts;
}

// "LENGTH key=value\n" ...
std::string pax_value(std::string_view text, std::string_view key) {
  std::string found;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const auto length = parse_unsigned(text.substr(0, std::min(space, text.size())));
    if (space == text.npos || !length || *length > text.size() || *length < space + 2)
      throw_broken("an extended header is none");
    const std::string_view record = text.substr(space + 1, *length - space - 2);
    if (record.starts_with(key) && record.substr(key.size()).starts_with('='))
      found = record.substr(key.size() + 1);
    text.remove_prefix(*length);
  }
  return found;
}

}  // namespace

TarUnpacker::TarUnpacker(const std::filesystem::path& folder) : path_(folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_)
    throw SystemError(fmt::format("cannot use the folder '{}'", folder.string()), errno);
}

// Goes down part by part, over no link; makes what is not there.
UniqueFd TarUnpacker::open_folder(const std::string& path) const {
  UniqueFd folder(::fcntl(folder_.get(), F_DUPFD_CLOEXEC, 0));
  for (const auto& part : safe_parts(path.empty() ? "." : path)) {
    if (::mkdirat(folder.get(), part.c_str(), 0777) != 0 && errno != EEXIST)
      throw SystemError(
          fmt::format("cannot make '{}' in '{}'", escape_controls(path), path_.string()), errno);
    folder.reset(
        ::openat(folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder)
      throw SystemError(
          fmt::format("cannot use the folder '{}' in '{}'", escape_controls(path), path_.string()),
          errno);
  }
  return folder;
}

void TarUnpacker::begin_file(const std::string& name, bool executable) {
  auto parts = safe_parts(name);
  if (parts.empty()) throw_broken("a file without a name");
  const std::string last = parts.back();
  parts.pop_back();
  const UniqueFd folder = open_folder(join(parts, "/"));
  file_.reset(::openat(folder.get(), last.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                       executable ? 0777 : 0666));
  if (!file_)
    throw SystemError(
        fmt::format("cannot write '{}' in '{}'", escape_controls(name), path_.string()), errno);
  files_[name] = 0;
}

void TarUnpacker::take_header(const char* block) {
  if (std::all_of(block, block + kBlock, [](char c) { return c == 0; })) {
    ++empty_blocks_;
    return;
  }
  if (empty_blocks_ > 0) throw_broken("something follows its end");
  require_checksum(block);
  const bool is_posix = std::memcmp(block + kMagic, "ustar\0", 6) == 0;
  const std::string prefix = is_posix ? tar_text(block, kPrefix) : "";
  name_ = prefix.empty() ? tar_text(block, kName) : prefix + "/" + tar_text(block, kName);
  content_ = tar_number(block, kSize);
  const char type = block[kType];
  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
    if (content_ > kMostText) throw_broken("an extended header is too long");
    into_ = type == 'x' ? Into::pax : type == 'L' ? Into::long_name : Into::nothing;
  } else {
    if (!next_name_.empty()) name_ = std::exchange(next_name_, {});
    if (!next_size_.empty()) {
      const auto size = parse_unsigned(std::exchange(next_size_, {}));
      if (!size) throw_broken("a size is none");
      content_ = *size;
    }
    into_ = Into::nothing;
    if (type == '0' || type == '\0') {
      into_ = Into::file;
      begin_file(name_, (tar_number(block, kMode) & 0100) != 0);
    } else if (type == '5') {
      open_folder(name_);
    } else {
      ++left_out_;
    }
  }
  padding_ = (kBlock - content_ % kBlock) % kBlock;
  if (content_ == 0) end_entry();
}

void TarUnpacker::take_content(std::string_view bytes) {
  if (into_ == Into::pax || into_ == Into::long_name) text_ += bytes;
  if (into_ != Into::file) return;
  files_[name_] += bytes.size();
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw SystemError(
          fmt::format("cannot write '{}' in '{}'", escape_controls(name_), path_.string()), errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void TarUnpacker::end_entry() {
  const std::string text = std::exchange(text_, {});
  if (into_ == Into::pax) {
    if (auto name = pax_value(text, "path"); !name.empty()) next_name_ = name;
    next_size_ = pax_value(text, "size");
  } else if (into_ == Into::long_name) {
    next_name_ = text.c_str();  // it ends with a zero
  }
  into_ = Into::nothing;
  file_.reset();
}

void TarUnpacker::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (content_ > 0) {
      const auto part = bytes.substr(0, std::min<std::uint64_t>(content_, bytes.size()));
      take_content(part);
      content_ -= part.size();
      bytes.remove_prefix(part.size());
      if (content_ == 0) end_entry();
    } else if (padding_ > 0) {
      const auto skipped = std::min<std::uint64_t>(padding_, bytes.size());
      padding_ -= skipped;
      bytes.remove_prefix(skipped);
    } else {
      const auto part = bytes.substr(0, kBlock - block_.size());
      block_ += part;
      bytes.remove_prefix(part.size());
      if (block_.size() < kBlock) return;
      const std::string block = std::exchange(block_, {});
      take_header(block.data());
    }
  }
}

void TarUnpacker::finish() {
  if (content_ > 0 || padding_ > 0 || !block_.empty() || empty_blocks_ == 0)
    throw_broken("it ends in the middle");
}

}  // namespace cohort::sdk
