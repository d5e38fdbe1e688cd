#include "cohort/service/store/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::service {
namespace {

constexpr int kDeepestOpen = 32;  // folders in each other
constexpr mode_t kOwnersAll = 0700;

// Removes what lies in one folder. Confined to one thread.
class TreeRemover {
 public:
  explicit TreeRemover(int top) : top_(top) {}

  void empty() {
    // What lay too deep was moved to the top, where the next turn finds it.
    do {
      moved_ = 0;
      empty_folder(top_, 0);
    } while (moved_ > 0 && error_ == 0);
  }
  int error() const { return error_; }  // the first; 0: all is gone

  // Opens a folder so that entries of it can be removed; invalid where that cannot be.
  static UniqueFd open_own(int folder, const char* name) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd fd(::openat(folder, name, kFlags));
    if (!fd && errno == EACCES && ::fchmodat(folder, name, kOwnersAll, 0) == 0)
      fd = UniqueFd(::openat(folder, name, kFlags));
    if (fd) ::fchmod(fd.get(), kOwnersAll);  // another user's: removing from it fails, and says why
    return fd;
  }

 private:
  void empty_folder(int folder, int depth) {
    UniqueFd copy(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy ? ::fdopendir(copy.get()) : nullptr,
                                                      ::closedir);
    if (!entries) {
      fail();
      return;
    }
    copy.release();
    // Entries may be passed over while others are removed: until a turn removes none.
    for (int removed = 1; removed > 0;) {
      removed = 0;
      ::rewinddir(entries.get());
      while (const dirent* entry = ::readdir(entries.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != ".." && remove(folder, name, depth)) ++removed;
      }
    }
  }

  bool remove(int folder, const std::string& name, int depth) {
    if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return true;
    struct stat status {};
    const int error = errno;
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return fail();
    if (!S_ISDIR(status.st_mode)) return fail(error);
    if (depth == kDeepestOpen) return move_up(folder, name);
    {
      const UniqueFd inner = open_own(folder, name.c_str());
      if (!inner) return fail();
      empty_folder(inner.get(), depth + 1);
    }
    return ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || fail();
  }

  bool move_up(int folder, const std::string& name) {
    ::fchmodat(folder, name.c_str(), kOwnersAll, 0);  // its entry ".." changes
    const std::string place = ".deep-" + std::to_string(next_++);
    if (::renameat(folder, name.c_str(), top_, place.c_str()) != 0) return fail();
    ++moved_;
    return true;
  }

  bool fail(int error = errno) {
    if (error_ == 0) error_ = error;
    return false;
  }

  const int top_;
  int error_ = 0;
  int moved_ = 0;
  int next_ = 0;
};

}  // namespace

void remove_tree(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return;
  int error = errno;
  if (const UniqueFd top = TreeRemover::open_own(AT_FDCWD, path.c_str())) {
    TreeRemover remover(top.get());
    remover.empty();
    error = remover.error();
  }
  if (error == 0 && ::rmdir(path.c_str()) != 0) error = errno;
  if (error != 0) throw SystemError(fmt::format("cannot remove '{}'", path.string()), error);
}

}  // namespace cohort::service
