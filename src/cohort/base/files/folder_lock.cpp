#include "cohort/base/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/error.h"

namespace cohort {
namespace {

constexpr const char* kLockName = ".lock";

// The file, opened; invalid when it is not there and `flags` do not make it.
UniqueFd open_lock(const std::filesystem::path& folder, int flags) {
  const std::filesystem::path path = folder / kLockName;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags,
                     S_IRUSR | S_IWUSR));
  if (!fd && errno == ENOENT) return fd;
  if (!fd)
    throw SystemError(fmt::format("cannot open the lock '{}'", path.string()), errno,
                      {.advice = "Choose a folder that this user may write to."});
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    throw SystemError(fmt::format("cannot look at the lock '{}'", path.string()), errno);
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
    throw InvalidInput(
        fmt::format("the lock '{}' is {}", path.string(),
                    S_ISREG(status.st_mode) ? fmt::format("user {}'s", status.st_uid) : "no file"),
        {.advice = "Choose a folder of your own, or remove that file."});
  ::fchmod(fd.get(), S_IRUSR | S_IWUSR);
  return fd;
}

// False when another process has it.
bool take(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

}  // namespace

std::optional<UniqueFd> lock_folder(const std::filesystem::path& folder) {
  UniqueFd fd = open_lock(folder, O_CREAT);
  if (!fd)
    throw SystemError(fmt::format("cannot make a lock in '{}'", folder.string()), ENOENT,
                      {.advice = "Choose a folder that this user may write to."});
  if (!take(fd.get())) return std::nullopt;
  return fd;
}

bool is_folder_locked(const std::filesystem::path& folder) {
  const UniqueFd fd = open_lock(folder, 0);
  return fd && !take(fd.get());
}

}  // namespace cohort
