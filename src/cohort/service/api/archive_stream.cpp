#include "cohort/service/api/archive_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/source/tar_format.h"

namespace cohort::service {
namespace {

using jobspec::TarEntry;

constexpr int kMostLooks = 100;  // at entries that give no bytes, too
constexpr int kOpenToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

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
    for (int looks = 0; bytes.size() < enough && looks < kMostLooks; ++looks) {
      if (file_) {
        add_file_bytes(bytes);
      } else if (!open_.empty()) {
        add_next_entry(bytes);
      } else if (next_root_ < roots_.size()) {
        open_root(roots_[next_root_++]);
      } else {
        bytes += jobspec::tar_end();
        return Then::end();
      }
    }
    return Then::more();
  }

 private:
  struct OpenFolder {
    UniqueFd fd;
    std::string prefix;
    FolderNames names;
  };

  void open_root(const FileRoot& root) {
    if (UniqueFd fd = open_folder(root.folder)) enter(std::move(fd), root.prefix);
  }

  void enter(UniqueFd fd, const std::string& prefix) {
    FolderNames names(fd.get());
    open_.push_back({std::move(fd), prefix, std::move(names)});
  }

  void add_next_entry(std::string& bytes) {
    OpenFolder& folder = open_.back();
    const auto found = folder.names.next();
    if (!found) {
      open_.pop_back();
      return;
    }
    const std::string& name = *found;
    const std::string path = folder.prefix + "/" + name;
    struct stat status {};
    if (::fstatat(folder.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISLNK(status.st_mode)) {
      std::array<char, 4096> target;
      const ssize_t size =
          ::readlinkat(folder.fd.get(), name.c_str(), target.data(), target.size());
      const std::string link(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      if (stays_inside(link))
        bytes += jobspec::tar_header({.kind = TarEntry::Kind::link, .path = path, .target = link});
    } else if (S_ISDIR(status.st_mode)) {
      if (open_.size() > kMostFolders) return;
      UniqueFd inner = open_beneath(folder.fd.get(), name, kOpenToRead | O_DIRECTORY);
      if (!inner) return;
      bytes += jobspec::tar_header({.kind = TarEntry::Kind::folder, .path = path});
      enter(std::move(inner), path);
    } else if (S_ISREG(status.st_mode)) {
      UniqueFd file = open_beneath(folder.fd.get(), name, kOpenToRead);
      if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
      file_ = std::move(file);
      size_ = static_cast<std::uint64_t>(status.st_size);
      sent_ = 0;
      bytes += jobspec::tar_header(
          {.path = path, .size = size_, .executable = (status.st_mode & S_IXUSR) != 0});
    }
  }

  void add_file_bytes(std::string& bytes) {
    if (sent_ == size_) {
      bytes += jobspec::tar_padding(size_);
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
