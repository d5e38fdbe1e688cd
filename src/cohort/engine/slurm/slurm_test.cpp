// What the Slurm engine decides without a cluster; tests/platform/slurm_test.py has a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/engine/bounded_command.h"
#include "cohort/engine/slurm/slurm_attempt.h"
#include "cohort/engine/slurm/slurm_ending.h"
#include "cohort/engine/slurm/slurm_options.h"

namespace cohort::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

jobspec::ResolvedJob slurm_job() {
  jobspec::ResolvedJob job;
  job.spec.name = "train";
  job.spec.engine = "slurm";
  job.instances = job.processes = 3;
  return job;
}

TEST(SlurmOptions, SayWhatTheJobAsksFor) {
  jobspec::ResolvedJob job = slurm_job();
  EXPECT_THAT(slurm_options(job, "a"),
              ElementsAre("--job-name=a", "--ntasks=3", "--cpus-per-task=1", "--requeue",
                          "--open-mode=append", "--signal=B:TERM@60"));
  job.instance = {.cores = 2.5, .memory_bytes = std::uint64_t{3} << 30, .gpus = 4};
  job.spec.max_run = std::chrono::seconds(61);
  job.spec.queue = "night";
  job.spec.elastic = jobspec::ElasticRange{1, 3};
  job.spec.engine_options = {"--account=vision"};
  EXPECT_THAT(slurm_options(job, "a"),
              ElementsAre("--job-name=a", "--ntasks=3", "--cpus-per-task=3", "--mem-per-cpu=1024M",
                          "--ntasks-per-node=1", "--gres=gpu:4", "--time=5", "--partition=night",
                          "--no-kill", "--requeue", "--open-mode=append", "--signal=B:TERM@60",
                          "--account=vision"));
}

TEST(SlurmOptions, RefuseWhatCohortDecides) {
  for (const char* word : {"--output=x", "--array=1-3", "--wrap=id", "-A", "script.sh", "--a\nb"}) {
    jobspec::ResolvedJob job = slurm_job();
    job.spec.engine_options = {word};
    EXPECT_THAT(message_of<InvalidInput>([&] { slurm_options(job, "a"); }),
                HasSubstr("engine_options"))
        << word;
  }
}

TEST(SlurmScript, IsWholeAndQuoted) {
  jobspec::ResolvedJob job = slurm_job();
  job.env = {{"A", "it's"}};
  const std::string script = slurm_script(job, {"--workers", "3", "--", "./train", "a b"});
  EXPECT_THAT(script, HasSubstr("#!/bin/sh\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --ntasks=3\n"));
  EXPECT_THAT(script, HasSubstr("export A='it'\\''s'\n"));
  EXPECT_THAT(script, HasSubstr("exec cohort resume \"$output\"\n"));
  EXPECT_THAT(script, HasSubstr("cohort run --slurm --output \"$output\" --workers 3 -- ./train "
                                "'a b'\n"));
}

TEST(SlurmView, ReadsJobsAndLeavesOutWhatItDoesNotUnderstand) {
  const auto jobs = parse_slurm_jobs(
      "12|RUNNING|n[1-3]|None\nslurm_load_jobs error\n13|PENDING||Resources|of "
      "a\n14|NEW_WORD||x\n");
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs.at(12).nodes, "n[1-3]");
  EXPECT_EQ(jobs.at(12).phase, SlurmPhase::alive);
  EXPECT_EQ(jobs.at(13).reason, "Resources|of a");
  EXPECT_EQ(jobs.at(13).phase, SlurmPhase::pending);
  EXPECT_EQ(jobs.at(14).phase, SlurmPhase::unknown_word);
}

AttemptStatus judged(AttemptState written, const char* slurm, bool stop_asked = false,
                     bool settled = true) {
  AttemptStatus status{.state = written, .failure = "as written"};
  SlurmSight sight{.id = 7, .answered = true, .job = std::nullopt, .stop_asked = stop_asked};
  if (slurm != nullptr)
    sight.job =
        SlurmJob{.state = slurm, .nodes = "n1", .reason = "Priority", .phase = phase_of(slurm)};
  judge(sight, settled, status);
  return status;
}

TEST(SlurmEnding, ASuccessCountsAtOnceAndOtherEndsWhenSlurmHasEndedTheJob) {
  using S = AttemptState;
  EXPECT_EQ(judged(S::succeeded, "RUNNING").state, S::succeeded);
  EXPECT_EQ(judged(S::failed, "RUNNING").state, S::stopping);
  EXPECT_EQ(judged(S::failed, "FAILED").state, S::failed);
  EXPECT_EQ(judged(S::failed, "FAILED").failure, "as written");
  EXPECT_EQ(judged(S::stopped, "COMPLETING", true).state, S::stopped);
  EXPECT_EQ(judged(S::failed, nullptr).state, S::failed);
}

TEST(SlurmEnding, APreemptedJobComesBack) {
  using S = AttemptState;
  const AttemptStatus back = judged(S::stopped, "PENDING");
  EXPECT_EQ(back.state, S::starting);
  EXPECT_EQ(back.waiting, "Slurm job 7 waits to go on from its checkpoint: Priority");
  EXPECT_EQ(back.failure, "");
  EXPECT_EQ(judged(S::unknown, "PENDING").waiting, "Slurm job 7 waits: Priority");
  EXPECT_EQ(judged(S::stopped, "PREEMPTED").state, S::lost);
}

TEST(SlurmEnding, WhatSlurmEndedIsToldInItsTerms) {
  using S = AttemptState;
  EXPECT_EQ(judged(S::running, "NODE_FAIL").state, S::lost);
  EXPECT_THAT(judged(S::failed, "NODE_FAIL").failure, HasSubstr("a node of n1 failed"));
  EXPECT_EQ(judged(S::running, "TIMEOUT").state, S::lost);
  EXPECT_EQ(judged(S::running, "OUT_OF_MEMORY").state, S::failed);
  EXPECT_EQ(judged(S::stopped, "CANCELLED").state, S::stopped);
  EXPECT_THAT(judged(S::unknown, "CANCELLED").failure, HasSubstr("cancelled in Slurm"));
  EXPECT_EQ(judged(S::running, "FAILED").state, S::lost);
  EXPECT_EQ(judged(S::unknown, "FAILED").state, S::failed);
  EXPECT_EQ(judged(S::running, nullptr).state, S::lost);
  EXPECT_EQ(judged(S::running, "CANCELLED", true).state, S::stopped);
}

TEST(SlurmEnding, NothingEndsByAWordThatIsNotKnownOrBeforeTheFilesHaveSettled) {
  using S = AttemptState;
  EXPECT_EQ(judged(S::running, "NEW_WORD").state, S::running);
  EXPECT_EQ(judged(S::running, "NODE_FAIL", false, false).state, S::running);
  EXPECT_EQ(judged(S::unknown, "FAILED", false, false).state, S::starting);
  AttemptStatus status{.state = S::failed};
  judge({.id = 7}, false, status);
  EXPECT_EQ(status.state, S::stopping) << "while Slurm does not answer";
}

TEST(SlurmClaim, BelongsToOneSlurmJobWhichMayComeBack) {
  const ScratchFolder scratch;
  const AttemptFolder folder{scratch.path()};
  EXPECT_THROW(claim_for_slurm(folder, {}), InvalidInput);
  EXPECT_EQ(claim_for_slurm(folder, {{"SLURM_JOB_ID", "5"}}), SlurmTurn::first);
  EXPECT_EQ(claim_for_slurm(folder, {{"SLURM_JOB_ID", "6"}}), SlurmTurn::taken);
  write_early_end(folder, "no data");
  EXPECT_EQ(claim_for_slurm(folder, {{"SLURM_JOB_ID", "5"}}), SlurmTurn::again);
  EXPECT_FALSE(read_early_end(folder));
  EXPECT_EQ(claiming_slurm_job(folder), 5u);
}

TEST(BoundedCommand, TellsTheEndAndKillsWhatTakesTooLong) {
  const auto seconds = [](int count) { return std::chrono::seconds(count); };
  const auto good = run_command({"sh", "-c", "echo out; echo err >&2"}, seconds(20));
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.output, "out\n");
  EXPECT_EQ(good.error, "err");
  EXPECT_EQ(run_command({"sh", "-c", "echo bad >&2; exit 3"}, seconds(20)).said(), "bad");
  EXPECT_EQ(run_command({"sh", "-c", "exit 3"}, seconds(20)).said(), "exit code 3");
  const auto slow = run_command({"sh", "-c", "sleep 600 & wait"}, std::chrono::milliseconds(50));
  EXPECT_FALSE(slow.ended);
  EXPECT_THROW(run_command({"/no/such/program"}, seconds(1)), InvalidInput);
}

}  // namespace
}  // namespace cohort::engine
