#include "cohort/base/files/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"

namespace cohort {
namespace {

TEST(FolderLock, IsHeldByOneAtATime) {
  const ScratchFolder folder;
  EXPECT_FALSE(is_folder_locked(folder.path()));
  auto first = lock_folder(folder.path());
  ASSERT_TRUE(first);
  EXPECT_TRUE(is_folder_locked(folder.path()));
  EXPECT_FALSE(lock_folder(folder.path()));
  first.reset();
  EXPECT_FALSE(is_folder_locked(folder.path()));
  EXPECT_TRUE(lock_folder(folder.path()));
}

TEST(FolderLock, AnotherUserWhoMayReadTheFolderCannotHoldIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const ScratchFolder folder;
  ::chmod(folder.path().c_str(), 0755);
  ASSERT_TRUE(lock_folder(folder.path()));
  const std::string file = (folder.path() / ".lock").string(), whole = folder.path().string();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    bool held = false;
    if (::setuid(kNobody) != 0) ::_exit(3);
    for (const char* path : {file.c_str(), whole.c_str()}) {
      const int fd = ::open(path, O_RDONLY);
      if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) held = path == file.c_str() || held;
    }
    ::close(ends[0]);
    const char byte = held ? 'h' : 'n';
    if (::write(ends[1], &byte, 1) != 1) ::_exit(4);
    ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'n');
  EXPECT_TRUE(lock_folder(folder.path()));  // though the other user holds the folder itself
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
}

TEST(FolderLock, ALinkOrAnotherUsersFileIsRefused) {
  const ScratchFolder folder;
  std::filesystem::create_symlink(folder.path() / "elsewhere", folder.path() / ".lock");
  EXPECT_THROW(lock_folder(folder.path()), SystemError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
  std::filesystem::remove(folder.path() / ".lock");
  std::filesystem::create_directory(folder.path() / ".lock");
  EXPECT_THROW(lock_folder(folder.path()), Error);
}

}  // namespace
}  // namespace cohort
