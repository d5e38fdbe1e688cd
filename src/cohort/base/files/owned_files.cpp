#include "cohort/base/files/owned_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool is_trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

void require_own(const std::string& what, const struct stat& status) {
  if (!is_trusted(status.st_uid))
    throw InvalidInput(
        fmt::format("{} belongs to user {}, and this process runs as user {}", what, status.st_uid,
                    ::geteuid()),
        {.advice = "Use a folder of your own: another user could have put anything into it."});
  if ((status.st_mode & kOthersWrite) != 0)
    throw InvalidInput(
        fmt::format("{} may be written by other users (mode {:o})", what, status.st_mode & 07777),
        {.advice = "Take that away with: chmod go-w PATH"});
}

struct stat status_of(const UniqueFd& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw SystemError(fmt::format("cannot look at '{}'", path.string()), errno);
  return status;
}

void require_own_link(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    throw SystemError(fmt::format("cannot look at '{}'", path.string()), errno);
  if (S_ISLNK(status.st_mode) && !is_trusted(status.st_uid))
    throw InvalidInput(
        fmt::format("'{}' is a symbolic link of user {}", path.string(), status.st_uid),
        {.advice = "Name the folder that you mean."});
}

}  // namespace

void make_own_folder(const std::filesystem::path& path) {
  const auto whole = std::filesystem::absolute(path).lexically_normal();
  const auto plain = whole.has_filename() ? whole : whole.parent_path();
  std::error_code code;
  std::filesystem::create_directories(plain.parent_path(), code);
  if (code)
    throw SystemError(fmt::format("cannot make the folder '{}'", plain.parent_path().string()),
                      code.value());
  // Not what the umask leaves of 0777: a group may have to share other folders, but not this one.
  if (::mkdir(plain.c_str(), kFolderMode) != 0 && errno != EEXIST)
    throw SystemError(fmt::format("cannot make the folder '{}'", plain.string()), errno);
  require_own_folder(plain);
}

void require_own_folder(const std::filesystem::path& path) {
  require_own_link(path);
  const UniqueFd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw SystemError(fmt::format("cannot open the folder '{}'", path.string()), errno);
  require_own(fmt::format("the folder '{}'", path.string()), status_of(folder, path));
}

std::string read_own_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ELOOP)
    throw InvalidInput(fmt::format("'{}' is a symbolic link", path.string()),
                       {.advice = "Put the file itself there."});
  if (!file) throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
  const struct stat status = status_of(file, path);
  if (!S_ISREG(status.st_mode))
    throw InvalidInput(fmt::format("'{}' is not a regular file", path.string()));
  require_own(fmt::format("the file '{}'", path.string()), status);
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > most_bytes)
      throw InvalidInput(
          fmt::format("'{}' has more than {} bytes, the most allowed", path.string(), most_bytes));
  }
}

}  // namespace cohort
