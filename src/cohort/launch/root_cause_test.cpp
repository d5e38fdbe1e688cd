#include "cohort/launch/root_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskType;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TaskRecord failed(int index, ExitStatus status, std::deque<std::string> lines) {
  return {.id = {TaskType::worker, index},
          .host = "node7",
          .pid = 4711,
          .log = "out/logs/worker.log",
          .ran_for = std::chrono::milliseconds(12'100),
          .exit = status,
          .last_lines = std::move(lines)};
}

TEST(RootCause, TheFirstFailureIsTheCause) {
  std::vector<TaskRecord> failures = {failed(2, {.code = 1}, {"ValueError"}),
                                      failed(0, {.code = 1}, {"KeyError"})};
  EXPECT_EQ(choose_root_cause(failures).id.index, 2);
}

TEST(RootCause, ALostPeerStandsBackBehindAFailureWithWordsOfItsOwn) {
  std::vector<TaskRecord> failures = {
      failed(0, {.code = 1}, {"RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1234"}),
      failed(1, {.signal = SIGKILL}, {"step 3"})};
  EXPECT_EQ(choose_root_cause(failures).id.index, 1);
}

TEST(RootCause, WhenAllLostTheirPeerTheFirstIsTheCause) {
  std::vector<TaskRecord> failures = {failed(3, {.code = 1}, {"Broken pipe"}),
                                      failed(1, {.code = 1}, {"Socket closed"})};
  EXPECT_EQ(choose_root_cause(failures).id.index, 3);
}

TEST(RootCause, TheSummaryNamesTaskHostPidEndAndLastWords) {
  auto cause = failed(1, {.signal = SIGKILL}, {"step 402 loss 0.31", "  "});
  EXPECT_EQ(summary_line(cause),
            "worker/1 on node7 (pid 4711) was killed by signal 9 (SIGKILL) after 12.1 s: step 402 "
            "loss 0.31");
  cause.memory_evidence = "oom_kill rose";
  EXPECT_THAT(summary_line(cause), HasSubstr("out of memory"));
}

TEST(RootCause, WhatAFrameworkPrintsWhileItComesDownDoesNotHideTheException) {
  auto cause =
      failed(0, {.signal = SIGABRT},
             {"[rank0]: ValueError: sample 30 is broken",
              "[rank0]:[W1115 10:45:21.1 ProcessGroup.cpp:1553] Warning: destroy it first",
              "2026-11-15 10:45:21.2: W tensorflow/core/framework/op_kernel.cc:1839] cancelled",
              "terminate called without an active exception"});
  EXPECT_THAT(summary_line(cause), EndsWith(": [rank0]: ValueError: sample 30 is broken"));
  cause.last_lines = {"terminate called without an active exception"};
  EXPECT_THAT(summary_line(cause), EndsWith(": terminate called without an active exception"));
}

TEST(RootCause, TheReportEndsWithTheSummary) {
  auto cause = failed(1, {.code = 3}, {"boom"});
  auto bystander = failed(0, {.signal = SIGTERM}, {});
  bystander.stopped_by_launcher = true;
  std::string report = root_cause_report(cause, {bystander, cause});
  EXPECT_THAT(report, EndsWith("cohort: " + summary_line(cause) + "\n"));
  EXPECT_THAT(report, HasSubstr("worker/0 (stopped by cohort)"));
  EXPECT_THAT(report, HasSubstr("out/logs/worker.log"));
}

TEST(RootCause, AdviceFollowsTheEvidence) {
  EXPECT_THAT(advice(failed(0, {.code = 1}, {"OSError: [Errno 24] Too many open files"})),
              HasSubstr("ulimit -n"));
  EXPECT_THAT(advice(failed(0, {.signal = SIGSEGV}, {})), HasSubstr("gdb"));
  EXPECT_THAT(advice(failed(0, {.code = 127}, {"sh: 1: trian: not found"})), HasSubstr("name"));
  auto starved = failed(0, {.signal = SIGKILL}, {});
  EXPECT_THAT(advice(starved), HasSubstr("outside killed it"));
  starved.memory_evidence = "oom_kill rose";
  EXPECT_THAT(advice(starved), HasSubstr("batch size"));
}

TEST(RootCause, ATaskThatPrintedNothingIsSaidToHavePrintedNothing) {
  EXPECT_THAT(summary_line(failed(0, {.code = 1}, {})), EndsWith(": it printed nothing"));
}

}  // namespace
}  // namespace cohort::launch
