#include "cohort/launch/output/task_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"

namespace cohort::launch {
namespace {

TEST(TaskLog, KeepsEveryByte) {
  auto path = std::filesystem::path(::testing::TempDir()) / "task_log_test.log";
  std::string bytes("a\0\xff\r\n", 5);
  TaskLog log(path);
  EXPECT_EQ(log.write(bytes), TaskLog::Result::ok);
  EXPECT_EQ(log.write("more"), TaskLog::Result::ok);
  EXPECT_EQ(read_file(path), bytes + "more");
  std::filesystem::remove(path);
}

TEST(TaskLog, AFullDiskIsToldOnceAndCounted) {
  TaskLog log("/dev/full");
  EXPECT_EQ(log.write("12345"), TaskLog::Result::first_failure);
  EXPECT_EQ(log.write("678"), TaskLog::Result::failed);
  EXPECT_EQ(log.lost_bytes(), 8u);
  EXPECT_EQ(log.error(), "No space left on device");
}

TEST(TaskLog, AFolderThatDoesNotExistIsNamed) {
  try {
    TaskLog log("/nonexistent/worker-0.log");
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nonexistent/worker-0.log"));
  }
}

TEST(LastLines, KeepsTheNewestTwentyAndCutsLongOnes) {
  LastLines last;
  for (int i = 0; i < 50; ++i) last.add("line " + std::to_string(i), false);
  EXPECT_EQ(last.lines().size(), LastLines::kLines);
  EXPECT_EQ(last.lines().front(), "line 30");
  last.add(std::string(10'000, 'x'), false);
  EXPECT_LT(last.lines().back().size(), 600u);
}

TEST(LastLines, ARedrawnLineCountsOnce) {
  LastLines last;
  last.add("10%", true);
  last.add("20%", true);
  last.add("30%", false);
  EXPECT_THAT(last.lines(), ::testing::ElementsAre("30%"));
}

TEST(LastLines, OneLineStandsForTheFramesOfAStackTrace) {
  LastLines last;
  last.add("mat1 and mat2 shapes cannot be multiplied", false);
  for (int i = 0; i < 40; ++i) last.add("frame #" + std::to_string(i) + ": f + 0x1 (0x7f)", false);
  last.add("bye", false);
  EXPECT_THAT(last.lines(), ::testing::ElementsAre("mat1 and mat2 shapes cannot be multiplied",
                                                   "(40 lines of a stack trace)", "bye"));
}

TEST(LastLines, LastWordsPassOverEmptyLines) {
  LastLines last;
  last.add("ValueError: bad shape", false);
  last.add("  ", false);
  EXPECT_EQ(last.last_words(), "ValueError: bad shape");
}

}  // namespace
}  // namespace cohort::launch
