#include "cohort/service/jobs/job_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/service/jobs/job_ids.h"

namespace cohort::service {
namespace {

using ::testing::HasSubstr;

TEST(JobIds, RiseAlsoWhenTheClockStepsBack) {
  const Millis now = 1'794'855'662'123;  // 2026-11-16 18:21:02 UTC
  std::string last = next_job_id("", now);
  EXPECT_EQ(last.size(), 22u);
  EXPECT_EQ(last.substr(0, 9), "20261116-");
  for (int i = 0; i < 2000; ++i) {
    const std::string next = next_job_id(last, i % 3 ? now : now - 3'600'000);
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(next_job_id("20261231-235959-ffffff", now), "20270101-000000-000000");
}

struct OperationsTest : ::testing::Test {
  ScratchFolder scratch;
  std::vector<std::string> woken;
  JobOperations operations{RunFolders{scratch.path()},
                           [](const jobspec::JobSpec& spec) {
                             jobspec::ResolvedJob job;
                             job.spec = spec;
                             return job;
                           },
                           [this](std::string_view id) { woken.emplace_back(id); }};

  JobRow submit(const std::string& request_id = "",
                std::optional<jobspec::ElasticRange> elastic = {}) {
    jobspec::JobSpec spec;
    spec.name = "a";
    spec.program = {"true"};
    spec.elastic = elastic;
    return operations.submit(operations.check(spec), "ann", request_id);
  }
  void put(JobRow row, JobState state) {
    const JobState before = row.state;
    row.state = state;
    ASSERT_TRUE(operations.store().update_job(row, before));
  }
  std::string refusal(const std::function<void()>& call) { return message_of<InvalidInput>(call); }
};

TEST_F(OperationsTest, TheSameRequestGivesTheSameJob) {
  const std::string id = submit("r1").id;
  EXPECT_EQ(submit("r1").id, id);
  EXPECT_NE(submit("r2").id, id);
  EXPECT_NE(submit().id, submit().id);
  EXPECT_EQ(woken.at(0), id);
}

TEST_F(OperationsTest, AQueuedJobIsStoppedAtOnceAndARunningOneIsAsked) {
  const JobRow queued = submit();
  EXPECT_EQ(operations.stop(queued.id).state, JobState::stopped);
  EXPECT_THAT(refusal([&] { operations.stop(queued.id); }),
              HasSubstr("has ended already (stopped)"));
  const JobRow running = submit();
  put(running, JobState::running);
  const JobRow asked = operations.stop(running.id);
  EXPECT_EQ(asked.state, JobState::running);
  EXPECT_TRUE(asked.stop_asked);
}

TEST_F(OperationsTest, OnlyWhatEndedWithoutSuccessIsResumed) {
  const JobRow row = submit();
  EXPECT_THAT(refusal([&] { operations.resume(row.id); }),
              HasSubstr("is queued; only a job that has ended"));
  operations.stop(row.id);
  const JobRow again = operations.resume(row.id);
  EXPECT_EQ(again.state, JobState::queued);
  EXPECT_FALSE(again.stop_asked);
  EXPECT_FALSE(again.resume);  // it never ran
  put(again, JobState::succeeded);
  EXPECT_THAT(refusal([&] { operations.resume(row.id); }), HasSubstr("has succeeded"));
}

TEST_F(OperationsTest, OnlyRunningElasticJobsAreScaledWithinTheirRange) {
  const JobRow fixed = submit();
  EXPECT_THAT(refusal([&] { operations.scale(fixed.id, 2); }), HasSubstr("is not elastic"));
  const JobRow elastic = submit("", jobspec::ElasticRange{2, 4});
  EXPECT_THAT(refusal([&] { operations.scale(elastic.id, 5); }), HasSubstr("2 to 4"));
  EXPECT_THAT(refusal([&] { operations.scale(elastic.id, 3); }), HasSubstr("is queued"));
  put(elastic, JobState::running);
  EXPECT_EQ(operations.scale(elastic.id, 3).wanted_workers, 3);
}

TEST_F(OperationsTest, OnlyEndedJobsAreRemovedWithTheirFiles) {
  const JobRow row = submit();
  EXPECT_THAT(refusal([&] { operations.remove(row.id); }),
              HasSubstr("only a job that has ended can be deleted"));
  EXPECT_TRUE(operations.pin(row.id, true).pinned);
  operations.stop(row.id);
  const auto folder = RunFolders{scratch.path()}.job(row.id);
  std::filesystem::create_directories(folder / "output");
  const auto left = operations.remove(row.id);
  EXPECT_TRUE(std::filesystem::exists(left / "output"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_FALSE(operations.store().find_job(row.id));
  EXPECT_THROW(operations.pin(row.id, true), NoSuchJob);
}

}  // namespace
}  // namespace cohort::service
