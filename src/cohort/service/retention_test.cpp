#include "cohort/service/retention.h"

#include <gmock/gmock.h>

#include <fstream>

#include "cohort/base/files/scratch_folder_test.h"

namespace cohort::service {
namespace {

using testing::ElementsAre;

constexpr Millis kRetentionDay = Millis{24} * 3600 * 1000;

class RetentionTest : public testing::Test {
 protected:
  // A job with a folder of 1000 bytes.
  void add(const std::string& id, JobState state, Millis ended, bool pinned = false) {
    JobRow row;
    row.id = row.name = id;
    row.user = "ada";
    row.engine = "local";
    row.spec = row.resolved = row.tags = "{}";
    row.submitted = 1;
    operations_.store().add_job(row);
    row.state = state;
    row.ended = ended;
    operations_.store().update_job(row, JobState::queued);
    operations_.store().set_pinned(id, pinned);
    std::filesystem::create_directories(folders_.output(id));
    std::ofstream(folders_.output(id) / "result") << std::string(1000, 'x');
  }

  std::vector<std::string> left() {
    std::vector<std::string> ids;
    for (const JobRow& row : operations_.store().jobs({})) ids.push_back(row.id);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  ScratchFolder root_;
  RunFolders folders_{root_.path()};
  JobOperations operations_{folders_, {}, [](std::string_view) {}};
};

TEST_F(RetentionTest, RemovesWhatEndedLongAgoAndIsNotPinned) {
  add("a", JobState::succeeded, 1);
  add("b", JobState::failed, 1, /*pinned=*/true);
  add("c", JobState::stopped, 9 * kRetentionDay);
  add("d", JobState::running, 0);
  EXPECT_EQ(apply_retention({.days = 5}, operations_, folders_, 10 * kRetentionDay), 1);
  EXPECT_THAT(left(), ElementsAre("b", "c", "d"));
  EXPECT_FALSE(std::filesystem::exists(folders_.job("a")));
}

TEST_F(RetentionTest, RemovesTheOldestWhileTheFolderIsFull) {
  add("a", JobState::succeeded, 3);
  add("b", JobState::failed, 1);
  add("c", JobState::stopped, 2);
  add("d", JobState::running, 0);
  EXPECT_EQ(apply_retention({.bytes = 2500}, operations_, folders_, kRetentionDay), 2);
  EXPECT_THAT(left(), ElementsAre("a", "d"));
  EXPECT_EQ(apply_retention({.bytes = 2500}, operations_, folders_, kRetentionDay), 0);
}

}  // namespace
}  // namespace cohort::service
