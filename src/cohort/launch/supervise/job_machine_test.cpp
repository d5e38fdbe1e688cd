#include "cohort/launch/supervise/job_machine.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using std::chrono::milliseconds;
using Action = JobMachine::Action;
using Actions = std::vector<JobMachine::Action>;
using Ending = JobMachine::Ending;
using Phase = JobMachine::Phase;

const TaskId kTrainer0{TaskType::worker, 0};
const TaskId kTrainer1{TaskType::worker, 1};
const TaskId kTheServer{TaskType::ps, 0};
constexpr milliseconds kGracePeriod{3000};

JobMachine::Time moment(int ms) { return JobMachine::Time(milliseconds(ms)); }

TaskRecord ended_task(TaskId id, ExitStatus exit, milliseconds ran_for = milliseconds(60'000)) {
  TaskRecord task{.id = id, .pid = 7};
  task.exit = exit;
  task.ran_for = ran_for;
  return task;
}

TaskRecord lost_second(LastWord::Loss loss) {
  TaskRecord task = ended_task(kTrainer0, {.code = 1});
  task.last_word.kind = LastWord::Kind::lost_peer;
  task.last_word.loss = loss;
  task.last_word.peer = "worker/1";
  return task;
}

// Two workers and a parameter server run.
class RunningJob : public ::testing::Test {
 protected:
  explicit RunningJob(int max_restarts = 0)
      : machine_({.grace = kGracePeriod, .max_restarts = max_restarts}) {
    start_all();
  }

  void start_all() {
    for (const TaskId& task : {kTrainer0, kTrainer1, kTheServer}) machine_.on_started(task);
  }
  void end(const TaskId& task, int ms) {
    machine_.on_ended(task);
    machine_.after_ends(moment(ms));
  }
  Actions wake() {
    EXPECT_TRUE(machine_.wake_at());
    machine_.on_time(machine_.wake_at().value_or(moment(0)));
    return machine_.take_actions();
  }
  Actions take() { return machine_.take_actions(); }

  JobMachine machine_;
};

TEST_F(RunningJob, ASuccessStopsTheWorkersThenGivesTheServerAMomentToLeave) {
  machine_.on_ended(kTrainer0);
  machine_.succeed(moment(100));
  EXPECT_EQ(take(), (Actions{Action::start_nothing, Action::ask_training_to_stop}));
  EXPECT_EQ(machine_.wake_at(), moment(3100));
  end(kTrainer1, 200);
  EXPECT_EQ(machine_.wake_at(), moment(500));
  EXPECT_EQ(wake(), Actions{Action::ask_all_to_stop});
  EXPECT_EQ(machine_.wake_at(), moment(3100));
  EXPECT_TRUE(machine_.any_alive());
  end(kTheServer, 600);
  EXPECT_FALSE(machine_.any_alive());
  const Ending ending = machine_.end_attempt({}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::succeeded);
  EXPECT_EQ(ending.exit_code, 0);
}

TEST_F(RunningJob, WhatDoesNotEndWithinTheGracePeriodIsKilledWorkersBeforeServers) {
  machine_.succeed(moment(0));
  take();
  EXPECT_EQ(wake(), Actions{Action::kill_late_training});
  EXPECT_FALSE(machine_.wake_at());
  machine_.on_ended(kTrainer0);
  end(kTrainer1, 3100);
  EXPECT_EQ(wake(), Actions{Action::ask_all_to_stop});
  EXPECT_EQ(machine_.wake_at(), moment(3100 + 300 + 1000));
  EXPECT_EQ(wake(), Actions{Action::kill_late});
}

TEST_F(RunningJob, AFailureWaitsAMomentForTheFailureThatCausedIt) {
  end(kTrainer0, 0);
  machine_.fail(ended_task(kTrainer0, {.code = 1}), moment(0));
  EXPECT_EQ(machine_.phase(), Phase::settling);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(machine_.wake_at(), moment(500));
  machine_.succeed(moment(400));  // too late
  EXPECT_EQ(machine_.phase(), Phase::settling);
  EXPECT_EQ(wake(), (Actions{Action::start_nothing, Action::ask_training_to_stop}));
  end(kTrainer1, 600);
  EXPECT_EQ(wake(), Actions{Action::ask_all_to_stop});  // at once: there is no success to notice
  EXPECT_EQ(machine_.end_attempt({}, true).exit_code, 1);
}

TEST(JobWithATimeLimit, FailsWhenItIsOverAndIsNotStartedAgain) {
  JobMachine machine({.grace = kGracePeriod, .max_restarts = 3, .max_run = milliseconds(60'000)},
                     moment(0));
  machine.on_started(kTrainer0);
  EXPECT_EQ(machine.wake_at(), moment(60'000));
  machine.on_time(moment(59'999));
  EXPECT_TRUE(machine.take_actions().empty());
  machine.on_time(moment(60'000));
  EXPECT_EQ(machine.take_actions(), (Actions{Action::start_nothing, Action::ask_training_to_stop}));
  EXPECT_EQ(machine.wake_at(), moment(63'000));
  machine.on_time(moment(63'000));
  EXPECT_EQ(machine.take_actions(), Actions{Action::kill_late_training});
  machine.on_ended(kTrainer0);
  machine.after_ends(moment(63'010));
  const Ending ending = machine.end_attempt({ended_task(kTrainer0, {.signal = SIGKILL})}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::failed);
  EXPECT_EQ(ending.exit_code, 124);
  EXPECT_EQ(machine.failure(), "max_run of 60 s is over");
}

TEST(JobWithATimeLimit, EndsAsItWouldWithoutWhenItHasFailedOrWasStoppedBefore) {
  JobMachine failing({.grace = kGracePeriod, .max_run = milliseconds(100)}, moment(0));
  failing.on_started(kTrainer0);
  failing.on_ended(kTrainer0);
  failing.fail(ended_task(kTrainer0, {.code = 7}), moment(90));
  failing.on_time(moment(100));
  EXPECT_EQ(failing.end_attempt({}, true).exit_code, 7);
  JobMachine stopped({.grace = kGracePeriod, .max_run = milliseconds(100)}, moment(0));
  stopped.on_started(kTrainer0);
  stopped.on_stop_signal(SIGTERM, moment(90));
  stopped.on_time(moment(100));
  stopped.on_ended(kTrainer0);
  EXPECT_EQ(stopped.end_attempt({}, true).exit_code, 128 + SIGTERM);
}

TEST_F(RunningJob, SettlingEndsWhenNoWorkerIsLeft) {
  machine_.on_ended(kTrainer0);
  machine_.fail(ended_task(kTrainer0, {.code = 1}), moment(0));
  end(kTrainer1, 50);
  EXPECT_EQ(machine_.phase(), Phase::stopping);
}

TEST_F(RunningJob, ALostPeerThatIsStillAliveIsWaitedForLonger) {
  machine_.on_ended(kTrainer0);
  machine_.fail(lost_second(LastWord::Loss::died), moment(0));
  EXPECT_TRUE(wake().empty());
  EXPECT_EQ(machine_.wake_at(), moment(550));
  machine_.on_suspended(kTrainer1, true);  // it does not end by itself
  EXPECT_FALSE(wake().empty());
}

TEST_F(RunningJob, ALostPeerIsWaitedForTenSecondsAtMost) {
  machine_.on_ended(kTrainer0);
  machine_.fail(lost_second(LastWord::Loss::died), moment(0));
  machine_.on_time(moment(9999));
  EXPECT_EQ(machine_.phase(), Phase::settling);
  machine_.on_time(moment(10'049));
  EXPECT_EQ(machine_.phase(), Phase::stopping);
}

TEST_F(RunningJob, APeerThatIsLateIsNotWaitedFor) {
  machine_.on_ended(kTrainer0);
  machine_.fail(lost_second(LastWord::Loss::late), moment(0));
  EXPECT_FALSE(wake().empty());
}

TEST_F(RunningJob, AStopSignalStopsAndASecondSigintKills) {
  machine_.on_stop_signal(SIGINT, moment(0));
  EXPECT_TRUE(machine_.is_stop_requested());
  EXPECT_EQ(take(), (Actions{Action::start_nothing, Action::ask_training_to_stop}));
  machine_.on_stop_signal(SIGTERM, moment(10));
  EXPECT_TRUE(take().empty());
  machine_.on_stop_signal(SIGINT, moment(20));
  EXPECT_EQ(take(), Actions{Action::kill_all});
  const Ending ending = machine_.end_attempt({}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::stopped);
  EXPECT_EQ(ending.exit_code, 128 + SIGINT);
}

TEST_F(RunningJob, AStopSignalAfterAFailureLeavesTheFailureAndAllowsNoRestart) {
  const TaskRecord failed = ended_task(kTrainer0, {.code = 3});
  machine_.on_ended(kTrainer0);
  machine_.fail(failed, moment(0));
  machine_.on_stop_signal(SIGTERM, moment(10));
  const Ending ending = machine_.end_attempt({failed}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::failed);
  EXPECT_EQ(ending.exit_code, 3);
  ASSERT_TRUE(ending.cause);
  EXPECT_EQ(ending.cause->id, kTrainer0);
}

TEST_F(RunningJob, AHangupThatEndsATaskStopsTheJob) {
  const TaskRecord hung_up = ended_task(kTrainer0, {.signal = SIGHUP});
  EXPECT_FALSE(machine_.was_hung_up(hung_up));
  machine_.on_hangup_forwarded();
  EXPECT_TRUE(machine_.was_hung_up(hung_up));
  machine_.fail(hung_up, moment(0));
  const Ending ending = machine_.end_attempt({hung_up}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::stopped);
  EXPECT_EQ(ending.signal, SIGHUP);
}

TEST_F(RunningJob, AFailureAtOnceStopsWithoutSettling) {
  machine_.fail_at_once({}, moment(0));
  EXPECT_EQ(machine_.phase(), Phase::stopping);
  const Ending ending = machine_.end_attempt({}, true);
  EXPECT_EQ(ending.kind, Ending::Kind::failed);
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_FALSE(ending.cause);
}

class RestartingJob : public RunningJob {
 protected:
  RestartingJob() : RunningJob(1) {}

  Ending fail_attempt(bool may_restart = true) {
    const TaskRecord failed = ended_task(kTrainer0, {.code = 3});
    machine_.on_ended(kTrainer0);
    machine_.fail(failed, moment(0));
    for (const TaskId& task : {kTrainer1, kTheServer}) end(task, 100);
    take();
    return machine_.end_attempt({failed}, may_restart);
  }
};

TEST_F(RestartingJob, AFailedAttemptIsFollowedByAFreshOneUpToTheLimit) {
  EXPECT_EQ(fail_attempt().kind, Ending::Kind::restart);
  EXPECT_EQ(machine_.attempt(), 2);
  EXPECT_EQ(machine_.phase(), Phase::running);
  EXPECT_FALSE(machine_.any_alive());
  EXPECT_FALSE(machine_.wake_at());
  start_all();
  EXPECT_TRUE(machine_.any_alive());
  EXPECT_EQ(fail_attempt().kind, Ending::Kind::failed);
}

TEST_F(RestartingJob, ThePolicyMayRefuse) {
  EXPECT_EQ(fail_attempt(/*may_restart=*/false).kind, Ending::Kind::failed);
}

}  // namespace
}  // namespace cohort::launch
