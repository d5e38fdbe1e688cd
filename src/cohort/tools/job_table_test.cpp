#include "cohort/tools/job_table.h"

#include <gmock/gmock.h>

#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

using testing::HasSubstr;

const WallTime kNow = *parse_utc("2026-11-16T20:00:00Z");

sdk::Job sample_job(const std::string& reason) {
  sdk::Job job;
  job.id = "20261116-190102-7f3a9c";
  job.name = "mnist";
  job.user = "ann";
  job.queue = "default";
  job.engine = "local";
  job.state = "running";
  job.reason = reason;
  job.instances = 2;
  job.submitted = "2026-11-16T18:50:00.500Z";
  job.progress = 0.259;
  job.eta = "2026-11-16T20:05:00.000Z";
  return job;
}

TEST(JobTable, TimesAreReadAndDurationsAreShort) {
  EXPECT_EQ(parse_utc("1970-01-01T00:00:01.500Z")->time_since_epoch(),
            std::chrono::milliseconds(1500));
  EXPECT_FALSE(parse_utc("2026-11-16"));
  EXPECT_FALSE(parse_utc(""));
  EXPECT_EQ(duration_text(std::chrono::seconds(-1)), "0s");
  EXPECT_EQ(duration_text(std::chrono::seconds(59)), "59s");
  EXPECT_EQ(duration_text(std::chrono::seconds(3599)), "59m");
  EXPECT_EQ(duration_text(std::chrono::seconds(11400)), "3h10m");
  EXPECT_EQ(duration_text(std::chrono::hours(52)), "2d4h");
}

TEST(JobTable, ALineAJob) {
  EXPECT_EQ(job_table({sample_job("")}, kNow, 0),
            "ID                      NAME   STATE    INST  AGE   PROGRESS      REASON\n"
            "20261116-190102-7f3a9c  mnist  running  2     1h9m  25%, 5m left\n");
}

TEST(JobTable, LinesFitTheTerminalAndHoldNoControlBytes) {
  sdk::Job job = sample_job("waits for \x1b[31m" + std::string(300, 'x'));
  job.name = std::string(100, 'n');
  for (const auto& line : split(job_table({job}, kNow, 120), '\n'))
    EXPECT_LE(line.size(), 120U) << line;
  EXPECT_THAT(job_table({job}, kNow, 120), HasSubstr("waits for \\x1b[31mx"));
  EXPECT_THAT(job_table({job}, kNow, 0), HasSubstr(std::string(300, 'x') + "\n"));
}

TEST(JobTable, OneJobWithAttemptsAndTasks) {
  sdk::Job job = sample_job("worker/1 ended with exit code 3");
  job.state = "failed";
  job.exit_code = 3;
  job.attempts = {{.number = 1, .state = "failed", .exit_code = 3, .failure = "no data"}};
  job.tasks = {{.name = "worker:1", .host = "node", .state = "failed", .exit_code = 3}};
  job.notes = {"2 cores instead of 4"};
  const std::string text = job_text(job, kNow);
  EXPECT_THAT(text, HasSubstr("(mnist): failed, exit code 3: worker/1 ended with exit code 3\n"));
  EXPECT_THAT(text, HasSubstr("  attempt 1: failed, exit code 3: no data\n"));
  EXPECT_THAT(text, HasSubstr("  note: 2 cores instead of 4\n"));
  EXPECT_THAT(text, HasSubstr("worker:1  node  failed  3          0\n"));
  EXPECT_EQ(ending_text(job), "job 20261116-190102-7f3a9c failed: worker/1 ended with exit code 3");
}

TEST(JobTable, UseOfTheMachine) {
  sdk::ServiceInfo service;
  service.machine = {.cores = 8, .memory_bytes = std::uint64_t{16} << 30, .gpus = 1};
  service.free = {.cores = 4.5, .memory_bytes = std::uint64_t{13} << 30, .gpus = 1};
  service.running = 1;
  service.queued = 3;
  EXPECT_EQ(use_text(service),
            "in use: 3.5 of 8 cores, 3.0 of 16.0 GiB, 0 of 1 GPUs; 1 job runs, 3 wait");
}

}  // namespace
}  // namespace cohort::tools
