#include "cohort/report/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"

namespace cohort::report {
namespace {

// A disk that is full after `bytes` of a file.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(AppendFile, MakesItsFolderAndKeepsWhatWasThere) {
  ScratchFolder folder;
  auto path = folder / "a/b/file";
  AppendFile(path, AppendFile::Open::fresh).append("one\n");
  AppendFile(path, AppendFile::Open::extend).append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  AppendFile(path, AppendFile::Open::fresh).append("three\n");
  EXPECT_EQ(read_file(path), "three\n");
}

TEST(AppendFile, AFewRecordsWaitForTheFlush) {
  ScratchFolder folder;
  AppendFile file(folder / "file", AppendFile::Open::fresh);
  file.append("record\n");
  EXPECT_EQ(read_file(file.path()), "");
  file.flush();
  EXPECT_EQ(read_file(file.path()), "record\n");
  file.append(std::string(100'000, 'x'));
  EXPECT_EQ(read_file(file.path()).size(), 100'007u);
}

TEST(AppendFile, AUniqueFileDoesNotTouchAnExistingOne) {
  ScratchFolder folder;
  write_file_atomically(folder / "file", "mine");
  try {
    AppendFile(folder / "file", AppendFile::Open::unique);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.code(), EEXIST);
  }
  EXPECT_EQ(read_file(folder / "file"), "mine");
}

TEST(AppendFile, AFolderThatCannotBeMadeIsNamed) {
  ScratchFolder folder;
  write_file_atomically(folder / "file", "not a folder");
  auto message =
      message_of<SystemError>([&] { AppendFile(folder / "file/x", AppendFile::Open::fresh); });
  EXPECT_NE(message.find((folder / "file").string()), std::string::npos) << message;
}

TEST(AppendFile, AFullDiskIsAnErrorWithThePathAndLeavesWholeRecords) {
  ScratchFolder folder;
  AppendFile file(folder / "file", AppendFile::Open::fresh);
  file.append("whole\n");
  file.flush();
  {
    SmallFiles limit(10);
    file.append("half of this does not fit\n");
    auto message = message_of<SystemError>([&] { file.flush(); });
    EXPECT_NE(message.find(file.path().string()), std::string::npos) << message;
  }
  EXPECT_EQ(read_file(file.path()), "whole\n");
  file.append("later\n");
  file.flush();
  EXPECT_EQ(read_file(file.path()), "whole\nlater\n");
}

}  // namespace
}  // namespace cohort::report
