#include "cohort/base/files/owned_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uid_t kOther = 65534;

std::string folder_refusal(const fs::path& path) {
  return message_of<InvalidInput>([&] { require_own_folder(path); });
}
std::string file_refusal(const fs::path& path) {
  return message_of<InvalidInput>([&] { read_own_file(path, 100); });
}

TEST(OwnedFiles, AFolderThatIsMadeIsOurOwnWhateverTheUmask) {
  ScratchFolder scratch;
  const mode_t old = ::umask(0);
  make_own_folder(scratch / "shared/own/");
  ::umask(old);
  struct stat status {};
  ASSERT_EQ(::stat((scratch / "shared/own").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755u);
  make_own_folder(scratch / "shared/own");  // it may be there
}

TEST(OwnedFiles, WhatOthersMayWriteIsRefused) {
  ScratchFolder scratch;
  const fs::path file = scratch / "record";
  std::ofstream(file) << "text";
  EXPECT_EQ(read_own_file(file, 100), "text");
  for (mode_t mode : {0770, 0707, 01777}) {
    ::chmod(scratch.path().c_str(), mode);
    EXPECT_THAT(folder_refusal(scratch.path()), HasSubstr("may be written by other users"));
    ::chmod(file.c_str(), mode & 0777);
    EXPECT_THAT(file_refusal(file), HasSubstr("may be written by other users"));
  }
  ::chmod(scratch.path().c_str(), 0700);
}

TEST(OwnedFiles, WhatIsNoFileOfBoundedSizeIsRefusedAtOnce) {
  ScratchFolder scratch;
  fs::create_symlink("/dev/zero", scratch / "link");
  EXPECT_THAT(file_refusal(scratch / "link"), HasSubstr("is a symbolic link"));
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(file_refusal(scratch / "fifo"), HasSubstr("is not a regular file"));
  std::ofstream(scratch / "long") << std::string(101, 'x');
  EXPECT_THAT(file_refusal(scratch / "long"), HasSubstr("more than 100 bytes"));
}

TEST(OwnedFiles, WhatBelongsToAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ScratchFolder scratch;
  const fs::path file = scratch / "record", link = scratch / "link";
  std::ofstream(file) << "text";
  fs::create_directory(scratch / "folder");
  fs::create_symlink(scratch / "folder", link);
  require_own_folder(link);
  ASSERT_EQ(::lchown(link.c_str(), kOther, kOther), 0);
  EXPECT_THAT(folder_refusal(link), HasSubstr("is a symbolic link of user 65534"));
  ASSERT_EQ(::chown((scratch / "folder").c_str(), kOther, kOther), 0);
  EXPECT_THAT(folder_refusal(scratch / "folder"), HasSubstr("belongs to user 65534"));
  ASSERT_EQ(::chown(file.c_str(), kOther, kOther), 0);
  EXPECT_THAT(file_refusal(file), HasSubstr("belongs to user 65534"));
}

TEST(OwnedFiles, AFileIsNotWrittenThroughALink) {
  ScratchFolder scratch;
  std::ofstream(scratch / "precious") << "keep";
  // The name of the temporary file, and the file's own.
  fs::create_symlink(scratch / "precious", scratch / fmt::format("record.{}.tmp", ::getpid()));
  fs::create_symlink(scratch / "precious", scratch / "record");
  write_file_atomically(scratch / "record", "new", 0600);
  EXPECT_EQ(read_file(scratch / "precious"), "keep");
  EXPECT_EQ(read_own_file(scratch / "record", 100), "new");
  struct stat status {};
  ASSERT_EQ(::stat((scratch / "record").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(OwnedFiles, ThreadsMayWriteOneFileAtOnce) {
  ScratchFolder scratch;
  const std::string text(4096, 'x');
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        EXPECT_NO_THROW(write_file_atomically(scratch / "record", text));
    });
  writers.clear();
  EXPECT_EQ(read_file(scratch / "record"), text);
}

}  // namespace
}  // namespace cohort
