#include "cohort/service/api/archive_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kMostOctalSize = 077777777777;  // 8 GiB - 1
constexpr int kOpenToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

struct TarEntry {
  std::string name;
  char type = '0';  // file, '2' link, '5' folder, 'x' pax records of the next entry
  std::uint64_t size = 0;
  mode_t mode = 0644;
  std::int64_t modified = 0;
  std::string link;
};

std::string padding(std::uint64_t size) { return std::string((kBlock - size % kBlock) % kBlock, '\0'); }

std::string plain_header(const TarEntry& entry) {
  std::array<char, kBlock> block{};
  const auto put = [&block](std::size_t at, std::size_t room, const std::string& text) {
    std::memcpy(block.data() + at, text.data(), std::min(room, text.size()));
  };
  put(0, 100, entry.name);
  put(100, 8, fmt::format("{:07o}", entry.mode & 0777));
  put(108, 8, "0000000");
  put(116, 8, "0000000");
  put(124, 12, fmt::format("{:011o}", std::min<std::uint64_t>(entry.size, kMostOctalSize)));
  put(136, 12, fmt::format("{:011o}", std::max<std::int64_t>(entry.modified, 0)));
  put(148, 8, "        ");
  block[156] = entry.type;
  put(157, 100, entry.link);
  put(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  put(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return {block.data(), block.size()};
}

// "LENGTH key=value\n", where LENGTH counts its own digits, too.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::string rest = fmt::format(" {}={}\n", key, value);
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

std::string header_of(const TarEntry& entry) {
  std::string records;
  if (entry.name.size() > 100) records += pax_record("path", entry.name);
  if (entry.link.size() > 100) records += pax_record("linkpath", entry.link);
  if (entry.size > kMostOctalSize) records += pax_record("size", std::to_string(entry.size));
  if (records.empty()) return plain_header(entry);
  return plain_header({.name = "pax", .type = 'x', .size = records.size()}) + records +
         padding(records.size()) + plain_header(entry);
}

bool stays_inside(const std::string& link) {
  const auto steps = split(link, '/');
  return !link.empty() && link.front() != '/' &&
         std::find(steps.begin(), steps.end(), "..") == steps.end();
}

class ArchiveStream : public BodyStream {
 public:
  explicit ArchiveStream(std::vector<FileRoot> roots) : roots_(std::move(roots)) {}

  Then next(std::string& bytes) override {
    const std::size_t enough = bytes.size() + kPiece;
    while (bytes.size() < enough) {
      if (file_) {
        add_file_bytes(bytes);
      } else if (!open_.empty()) {
        add_next_entry(bytes);
      } else if (next_root_ < roots_.size()) {
        open_root(roots_[next_root_++]);
      } else {
        bytes.append(2 * kBlock, '\0');
        return Then::end();
      }
    }
    return Then::more();
  }

 private:
  struct OpenFolder {
    UniqueFd fd;
    std::string prefix;
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  void open_root(const FileRoot& root) {
    if (UniqueFd fd = open_folder(root.folder)) enter(std::move(fd), root.prefix);
  }

  void enter(UniqueFd fd, const std::string& prefix) {
    auto names = names_in(fd.get());
    open_.push_back({std::move(fd), prefix, std::move(names)});
  }

  void add_next_entry(std::string& bytes) {
    OpenFolder& folder = open_.back();
    if (folder.next == folder.names.size()) {
      open_.pop_back();
      return;
    }
    const std::string name = folder.names[folder.next++];
    const std::string path = folder.prefix + "/" + name;
    struct stat status {};
    if (::fstatat(folder.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISLNK(status.st_mode)) {
      std::array<char, 4096> target;
      const ssize_t size =
          ::readlinkat(folder.fd.get(), name.c_str(), target.data(), target.size());
      const std::string link(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      if (stays_inside(link))
        bytes += header_of({.name = path, .type = '2', .mode = 0777,
                            .modified = status.st_mtim.tv_sec, .link = link});
    } else if (S_ISDIR(status.st_mode)) {
      UniqueFd inner = open_beneath(folder.fd.get(), name, kOpenToRead | O_DIRECTORY);
      if (!inner) return;
      bytes += header_of({.name = path + "/", .type = '5', .mode = status.st_mode,
                          .modified = status.st_mtim.tv_sec});
      enter(std::move(inner), path);
    } else if (S_ISREG(status.st_mode)) {
      UniqueFd file = open_beneath(folder.fd.get(), name, kOpenToRead);
      if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
      file_ = std::move(file);
      size_ = static_cast<std::uint64_t>(status.st_size);
      sent_ = 0;
      bytes += header_of({.name = path, .size = size_, .mode = status.st_mode,
                          .modified = status.st_mtim.tv_sec});
    }
  }

  void add_file_bytes(std::string& bytes) {
    if (sent_ == size_) {
      bytes += padding(size_);
      file_.reset();
      return;
    }
    const std::size_t before = bytes.size();
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size_ - sent_));
    bytes.resize(before + wanted);
    const ssize_t count =
        ::pread(file_.get(), bytes.data() + before, wanted, static_cast<off_t>(sent_));
    if (count < 0) throw SystemError("cannot read a file of a job", errno);
    if (count == 0) {  // it has shrunk: what is missing stays zero
      sent_ += wanted;
      return;
    }
    bytes.resize(before + static_cast<std::size_t>(count));
    sent_ += static_cast<std::uint64_t>(count);
  }

  std::vector<FileRoot> roots_;
  std::size_t next_root_ = 0;
  std::vector<OpenFolder> open_;  // one in the other
  UniqueFd file_;                 // being sent
  std::uint64_t size_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace

std::unique_ptr<BodyStream> archive_stream(std::vector<FileRoot> roots) {
  return std::make_unique<ArchiveStream>(std::move(roots));
}

}  // namespace cohort::service
