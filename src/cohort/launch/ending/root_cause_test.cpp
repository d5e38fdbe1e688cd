#include "cohort/launch/ending/root_cause.h"

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
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 2);
}

TEST(RootCause, ALostPeerStandsBackBehindAFailureWithWordsOfItsOwn) {
  std::vector<TaskRecord> failures = {
      failed(0, {.code = 1}, {"RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1234"}),
      failed(1, {.signal = SIGKILL}, {"step 3"})};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 1);
}

TEST(RootCause, WhenAllLostTheirPeerTheFirstIsTheCause) {
  std::vector<TaskRecord> failures = {failed(3, {.code = 1}, {"Broken pipe"}),
                                      failed(1, {.code = 1}, {"Socket closed"})};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 3);
}

LastWord lost(const std::string& peer, const std::string& message = "rank 1 died") {
  return {.kind = LastWord::Kind::lost_peer,
          .peer = peer,
          .loss = LastWord::Loss::died,
          .during = "all_reduce #3 of 1000 x f32",
          .message = message,
          .exit_code = 1};
}

TaskRecord said(int index, LastWord word) {
  auto task = failed(index, {.code = 1}, {"the program failed"});
  task.last_word = std::move(word);
  return task;
}

TEST(RootCause, WhoeverTheOthersLostIsTheCauseHoweverLateItEnds) {
  const std::vector<TaskRecord> failures = {said(0, lost("worker/2")), said(2, lost("worker/1")),
                                            failed(3, {.code = 1}, {"silent"}),
                                            failed(1, {.signal = SIGSEGV}, {"step 3"})};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 1);
}

TEST(RootCause, AnErrorOfItsOwnGoesBeforeSilenceAndSilenceBeforeALoss) {
  const LastWord own{.kind = LastWord::Kind::error, .message = "train: bad", .exit_code = 1};
  std::vector<TaskRecord> failures = {said(0, lost("")), failed(2, {.code = 1}, {"silent"}),
                                      said(1, own)};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 1);
  failures.insert(failures.begin(), failed(3, {.signal = SIGKILL}, {"step 4"}));
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 3);
  failures.erase(failures.begin());
  failures.back() = failed(3, {.signal = SIGKILL}, {"step 4"});
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 2) << "time decides between the silent";
  failures.pop_back();
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 2);
  failures.pop_back();
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 0);
  // Its own word goes before what its output looks like.
  auto speaks_of_pipes = said(4, own);
  speaks_of_pipes.last_lines = {"Broken pipe"};
  EXPECT_FALSE(looks_like_a_lost_peer(speaks_of_pipes));
}

TEST(RootCause, OneThatEndedWithZeroTooEarlyIsTheCause) {
  const std::vector<TaskRecord> failures = {said(2, lost("worker/1")), said(0, lost("worker/1"))};
  auto early = failed(1, {.code = 0}, {"done"});
  const auto cause = choose_root_cause(failures, {failures[1], early, failures[0]});
  EXPECT_EQ(summary_line(cause),
            "worker/1 on node7 (pid 4711) ended with exit code 0 after 12.1 s while worker/0 and "
            "worker/2 waited for it in all_reduce #3 of 1000 x f32");
  EXPECT_THAT(advice(cause), HasSubstr("same collective calls"));
  const std::string report = root_cause_report(cause, {failures[1], early, failures[0]});
  EXPECT_THAT(report, HasSubstr("worker/0 (exit code 1, lost worker/1)"));
  early.stopped_by_launcher = true;
  EXPECT_EQ(choose_root_cause(failures, {early}).id.index, 2);
}

TEST(RootCause, LossesThatLeadNowhereAreNotFollowed) {
  std::vector<TaskRecord> failures = {said(0, lost("worker/1")), said(1, lost("worker/0"))};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 0);
  failures = {said(0, lost("worker/7")), said(1, lost("no task"))};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 0);
  // Replicas of one task lost each other: the error is the task's own.
  failures = {said(0, lost("worker/1, replica 1")),
              said(1, lost("worker/1, replica 0", "train: bad sample"))};
  EXPECT_EQ(choose_root_cause(failures, failures).id.index, 1);
}

TEST(RootCause, CohortsOwnPhrasesSpeakOfALostPeer) {
  for (const char* line :
       {"train: rank 1 (worker/1 on a) left the group (during all_reduce #5 of 1000 x f32)",
        "train: rank 1 (worker/1 on a) aborted the group: replica 1 of 2 stopped",
        "  what():  rank 1 (worker/1 on a) died (during barrier #1). Read that rank's log.",
        "train: rank 1 (worker/1 on a) died or was cut off: its connection broke",
        "train: rank 1 (worker/1 on a) died while the group 'world' was formed",
        "train: rank 1 (worker/1 on a) did not take part in time (during barrier #1)",
        "mine: worker/1 left the store, so barrier 'job/1/barrier/x' cannot complete"})
    EXPECT_TRUE(looks_like_a_lost_peer(failed(0, {.code = 1}, {line}))) << line;
  EXPECT_FALSE(looks_like_a_lost_peer(failed(0, {.code = 1}, {"the hamster died"})));
}

TEST(RootCause, WhatATaskSaysIsShownAsOneHarmlessLine) {
  auto cause = said(0, {.kind = LastWord::Kind::error, .message = "a\n\n b\x1b[2J\n"});
  EXPECT_THAT(summary_line(cause), EndsWith(": a b\\x1b[2J"));
  cause.last_word.message = std::string(4000, 'x');
  EXPECT_LT(summary_line(cause).size(), 700u);
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
