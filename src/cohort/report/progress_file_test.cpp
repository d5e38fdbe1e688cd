#include "cohort/report/progress_file.h"

#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/report/progress.h"

namespace cohort::report {
namespace {

TEST(ProgressFile, TellsHowFarARunIs) {
  ScratchFolder folder;
  const auto path = folder / "progress.json";
  ASSERT_TRUE(write_progress_file(
      path, {.epoch = 2, .epochs = 4, .step = 5, .steps = 10, .seconds_left = 12.5}));
  const auto record = read_progress_file(path);
  ASSERT_TRUE(record);
  EXPECT_DOUBLE_EQ(*record->fraction, 0.375);
  EXPECT_EQ(record->seconds_left, 12.5);
  EXPECT_GT(record->time, 1'600'000'000'000);
  EXPECT_EQ(nlohmann::json::parse(read_file(path))["step"], 5);
}

TEST(ProgressFile, LeavesOutWhatIsNotKnown) {
  ScratchFolder folder;
  ASSERT_TRUE(write_progress_file(folder / "p", {.epoch = 1, .step = 5}));
  const auto record = read_progress_file(folder / "p");
  ASSERT_TRUE(record);
  EXPECT_FALSE(record->fraction);
  EXPECT_FALSE(record->seconds_left);
  EXPECT_FALSE(write_progress_file(folder / "none" / "p", {}));
}

TEST(ProgressFile, ReadsNothingFromOtherTexts) {
  ScratchFolder folder;
  EXPECT_FALSE(read_progress_file(folder / "none"));
  for (const char* text : {"", "[]", "3", "{", R"({"time":"x"})", R"({"time":1e300})"}) {
    write_file_atomically(folder / "p", text);
    EXPECT_FALSE(read_progress_file(folder / "p")) << text;
  }
  write_file_atomically(folder / "p", R"({"time":1,"fraction":7,"seconds_left":null})");
  const auto record = read_progress_file(folder / "p");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->fraction, 1.0);
  EXPECT_FALSE(record->seconds_left);
  std::filesystem::create_symlink(folder / "p", folder / "link");
  EXPECT_FALSE(read_progress_file(folder / "link"));
}

TEST(ProgressFile, IsWrittenByAProgressLineOnceASecond) {
  ScratchFolder folder;
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const UniqueFd reader(fds[0]), writer(fds[1]);
  ProgressOptions::Clock::time_point now{};
  Progress progress({.fd = writer.get(),
                     .mode = ProgressMode::plain,
                     .record = folder / "progress.json",
                     .now = [&] { return now; }});
  const auto fraction = [&] { return read_progress_file(folder / "progress.json")->fraction; };
  progress.show({.epoch = 1, .epochs = 1, .step = 1, .steps = 10});
  EXPECT_DOUBLE_EQ(*fraction(), 0.1);
  now += std::chrono::milliseconds(500);
  progress.show({.epoch = 1, .epochs = 1, .step = 2, .steps = 10});
  EXPECT_DOUBLE_EQ(*fraction(), 0.1);
  now += std::chrono::milliseconds(500);
  progress.show({.epoch = 1, .epochs = 1, .step = 3, .steps = 10});
  EXPECT_DOUBLE_EQ(*fraction(), 0.3);
}

}  // namespace
}  // namespace cohort::report
