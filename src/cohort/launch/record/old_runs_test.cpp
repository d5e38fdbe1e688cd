#include "cohort/launch/record/old_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OldRuns : public testing::Test {
 protected:
  // A finished run as the launcher leaves it, so many days old.
  fs::path run(const std::string& name, int days) {
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder / "logs");
    write(folder / "logs" / "worker-0.attempt1.log", "step 1\n");
    write(folder / "job-options.json", "{}");
    write(folder / "job.json", to_json(JobRecord{.job = name, .command = {"true"}}));
    age(folder / "job.json", days);
    return folder;
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static void age(const fs::path& path, int days) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24) * days);
  }
  std::vector<std::string> clean(int runs) { return remove_old_runs(folder_.path(), runs); }

  ScratchFolder folder_;
};

TEST_F(OldRuns, GoWhenTheyAreNeitherAmongTheNewestNorRecent) {
  run("a", 30);
  run("b", 20);
  run("c", 10);
  run("d", 9);
  run("e", 1);
  EXPECT_THAT(clean(3), ElementsAre("a", "b"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_TRUE(fs::exists(folder_ / "c"));
  EXPECT_THAT(clean(3), IsEmpty());
  run("f", 2);
  run("g", 3);
  EXPECT_THAT(clean(1), ElementsAre("c", "d")) << "those of the last days stay";
  EXPECT_THAT(clean(1), IsEmpty());
}

TEST_F(OldRuns, AllStayWithZero) {
  run("a", 30);
  run("b", 20);
  EXPECT_THAT(clean(0), IsEmpty());
}

TEST_F(OldRuns, WhatIsNotALaunchersStays) {
  run("new", 0);
  write(run("pinned", 50) / "pinned", "");
  write(run("of-another-job", 51) / "job.json", R"({"job": "x"})");
  age(folder_ / "of-another-job/job.json", 51);
  write(run("broken", 52) / "job.json", "{");
  age(folder_ / "broken/job.json", 52);
  fs::create_directories(folder_ / "no-record");
  age(folder_ / "no-record", 53);
  fs::rename(run("renamed", 54), folder_ / "my-best-run");
  fs::create_directories(run("trained", 55) / "checkpoints");
  write(run("with-a-model", 56) / "model.pt", "weights");
  ScratchFolder elsewhere;
  fs::rename(run("linked", 57), elsewhere / "linked");
  fs::create_directory_symlink(elsewhere / "linked", folder_ / "linked");
  const fs::path record = run("linked-record", 58) / "job.json";
  fs::rename(record, elsewhere / "job.json");
  fs::create_symlink(elsewhere / "job.json", record);
  write(folder_ / "a-file", "");
  EXPECT_THAT(clean(1), IsEmpty());
  EXPECT_TRUE(fs::exists(elsewhere / "linked" / "job.json"));
}

TEST_F(OldRuns, ARunningJobsStays) {
  run("new", 0);
  const fs::path path = run("old", 50);
  {
    const OutputFolder running(path, OutputFolder::Earlier::kept);
    EXPECT_THAT(clean(1), IsEmpty());
  }
  age(path / "job.json", 50);
  EXPECT_THAT(clean(1), ElementsAre("old"));
}

TEST_F(OldRuns, ALinkInsideIsRemovedAndNotFollowed) {
  run("new", 0);
  ScratchFolder elsewhere;
  write(elsewhere / "precious", "1");
  fs::create_directory_symlink(elsewhere.path(), run("old", 50) / "logs" / "link");
  age(folder_ / "old/job.json", 50);
  EXPECT_THAT(clean(1), ElementsAre("old"));
  EXPECT_TRUE(fs::exists(elsewhere / "precious"));
}

TEST_F(OldRuns, SeveralLaunchersRemoveEachOnce) {
  run("new", 0);
  for (int i = 0; i < 40; ++i) run("old" + std::to_string(i), 50 + i);
  std::vector<std::vector<std::string>> removed(4);
  std::vector<std::thread> threads;
  for (auto& names : removed) threads.emplace_back([&] { names = clean(1); });
  for (auto& thread : threads) thread.join();
  std::size_t count = 0;
  for (const auto& names : removed) count += names.size();
  EXPECT_EQ(count, 40u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(OldRuns, WithoutAFolderThereIsNothingToDo) {
  EXPECT_THAT(remove_old_runs(folder_ / "nowhere", 1), IsEmpty());
}

}  // namespace
}  // namespace cohort::launch
