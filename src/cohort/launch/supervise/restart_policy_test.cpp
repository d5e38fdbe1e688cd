#include "cohort/launch/supervise/restart_policy.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using std::chrono::milliseconds;
using Answer = RestartPolicy::Answer;
using Flag = RestartStateOwner::Flag;

const TaskId kAServer{TaskType::ps, 0};
const TaskId kAWorker{TaskType::worker, 1};
constexpr milliseconds kLongRun{60'000};
constexpr milliseconds kShortRun{100};

TaskRecord ended(TaskId id, ExitStatus exit, milliseconds ran_for = kLongRun) {
  TaskRecord record{.id = id};
  record.ran_for = ran_for;
  record.exit = exit;
  return record;
}

TaskRecord killed(TaskId id, milliseconds ran_for = kLongRun) {
  return ended(id, {.signal = SIGKILL}, ran_for);
}

TEST(MayRestartAlone, OnlyATaskThatAskedAndWasKilled) {
  EXPECT_TRUE(may_restart_alone(killed(kAServer), Flag::restart, false));
  EXPECT_TRUE(may_restart_alone(ended(kAWorker, {.signal = SIGSEGV}), Flag::restart, false));
  EXPECT_FALSE(may_restart_alone(killed(kAServer), Flag::no_restart, false));
  EXPECT_FALSE(may_restart_alone(ended(kAServer, {.code = 137}), Flag::restart, false));
  EXPECT_FALSE(may_restart_alone(ended(kAServer, {.code = 0}), Flag::restart, false));
}

TEST(MayRestartAlone, NotATaskThatWasToldToGo) {
  EXPECT_FALSE(may_restart_alone(ended(kAServer, {.signal = SIGTERM}), Flag::restart, false));
}

TEST(MayRestartAlone, WithServersATaskThatIsKilledBeforeItCouldAsk) {
  const TaskRecord early = killed(kAWorker, milliseconds(300));
  EXPECT_TRUE(may_restart_alone(early, Flag::nothing, true));
  EXPECT_FALSE(may_restart_alone(early, Flag::nothing, false));
  EXPECT_FALSE(may_restart_alone(early, Flag::no_restart, true));
  EXPECT_FALSE(may_restart_alone(early, Flag::finished, true));
  // It has run for long: no program of ours.
  EXPECT_FALSE(may_restart_alone(killed(kAWorker), Flag::nothing, true));
  EXPECT_FALSE(may_restart_alone(ended(kAWorker, {.signal = SIGSEGV}, milliseconds(300)),
                                 Flag::nothing, true));
}

TEST(IsUsageError, OnlyBeforeTheFirstView) {
  EXPECT_TRUE(is_usage_error(ended(kAWorker, {.code = 2}), false));
  EXPECT_FALSE(is_usage_error(ended(kAWorker, {.code = 2}), true));
  EXPECT_FALSE(is_usage_error(ended(kAWorker, {.signal = SIGINT}), false));
}

TEST(RestartPolicyOfATask, TheLimitIsForTasksThatTrainAndNotForServers) {
  RestartPolicy policy(RestartPolicy::for_task(2));
  EXPECT_EQ(policy.on_task_end(killed(kAWorker)).answer, Answer::restart);
  EXPECT_EQ(policy.on_task_end(killed(kAWorker)).answer, Answer::restart);
  EXPECT_EQ(policy.on_task_end(killed(kAWorker)).answer, Answer::limit_reached);
  for (int i = 0; i < 500; ++i)
    EXPECT_EQ(policy.on_task_end(killed(kAServer)).answer, Answer::restart);
}

TEST(RestartPolicyOfATask, ALimitOf0IsForServersToo) {
  RestartPolicy policy(RestartPolicy::for_task(0));
  EXPECT_EQ(policy.on_task_end(killed(kAServer)).answer, Answer::limit_reached);
  EXPECT_EQ(policy.on_task_end(killed(kAWorker)).answer, Answer::limit_reached);
}

TEST(RestartPolicyOfATask, FiveQuickDeathsInARowAreALoopAndALongLifeEndsTheRow) {
  RestartPolicy policy(RestartPolicy::for_task(3));
  auto die = [&](milliseconds ran_for) { return policy.on_task_end(killed(kAServer, ran_for)); };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(die(milliseconds(999)).answer, Answer::restart);
  EXPECT_EQ(die(milliseconds(1000)).answer, Answer::restart);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(die(milliseconds(10)).answer, Answer::restart);
    EXPECT_EQ(die(milliseconds(1000)).delay.count(), 0);
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(die(milliseconds(10)).answer, Answer::restart);
  EXPECT_EQ(policy.on_task_end(killed({TaskType::ps, 1}, milliseconds(1))).answer,
            Answer::restart);  // another task's deaths do not count
  EXPECT_EQ(die(milliseconds(10)).answer, Answer::crash_loop);
}

TEST(RestartPolicyOfAWorker, SignalsAndExitCodesAlikeUpToTheLimitOfEach) {
  RestartPolicy policy(RestartPolicy::for_worker(2));
  const auto first = policy.on_task_end(killed(kAWorker));
  EXPECT_EQ(first.answer, Answer::restart);
  EXPECT_EQ(first.counted, 1);
  EXPECT_EQ(policy.on_task_end(ended(kAWorker, {.code = 3})).counted, 2);
  const auto last = policy.on_task_end(ended(kAWorker, {.code = 3}));
  EXPECT_EQ(last.answer, Answer::limit_reached);
  EXPECT_EQ(last.counted, 2);
  EXPECT_EQ(policy.on_task_end(ended({TaskType::worker, 2}, {.code = 3})).counted, 1);
  EXPECT_EQ(RestartPolicy(RestartPolicy::for_worker(0)).on_task_end(killed(kAWorker)).answer,
            Answer::limit_reached);
}

TEST(RestartPolicyOfAWorker, APreemptionIsFreeUnlessItWasQuick) {
  RestartPolicy policy(RestartPolicy::for_worker(1));
  for (int i = 0; i < 20; ++i) {
    const auto decision = policy.on_task_end(ended(kAWorker, {.code = 42}));
    EXPECT_EQ(decision.answer, Answer::restart);
    EXPECT_TRUE(decision.is_free);
    EXPECT_EQ(decision.counted, 0);
  }
  auto told_to_go = [&](milliseconds ran_for) {
    return policy.on_task_end(ended(kAWorker, {.signal = SIGTERM}, ran_for));
  };
  EXPECT_EQ(told_to_go(kShortRun).counted, 1);
  EXPECT_EQ(told_to_go(kShortRun).answer, Answer::limit_reached);
  EXPECT_EQ(policy.on_task_end(ended(kAWorker, {.code = 143})).answer, Answer::restart);
}

TEST(RestartPolicyOfAWorker, QuickDeathsInARowWaitEverLonger) {
  RestartPolicy policy(RestartPolicy::for_worker(100));
  auto delay = [&](milliseconds ran_for) {
    return policy.on_task_end(ended(kAWorker, {.signal = SIGSEGV}, ran_for)).delay.count();
  };
  EXPECT_EQ(delay(kLongRun), 0);
  for (int expected : {0, 250, 500, 1000, 2000, 4000, 5000, 5000})
    EXPECT_EQ(delay(kShortRun), expected);
  EXPECT_EQ(delay(policy.rules().quick), 0);  // it lived: the row has ended
  EXPECT_EQ(delay(kShortRun), 0);
  EXPECT_EQ(delay(kShortRun), 250);
}

TEST(RestartPolicyOfAWorker, AHistoryThatIsResetCountsFromTheBeginning) {
  RestartPolicy policy(RestartPolicy::for_worker(1));
  policy.on_task_end(ended(kAWorker, {.code = 3}, kShortRun));
  EXPECT_EQ(policy.on_task_end(ended(kAWorker, {.code = 3}, kShortRun)).answer,
            Answer::limit_reached);
  policy.reset_history(kAWorker);
  const auto decision = policy.on_task_end(ended(kAWorker, {.code = 3}, kShortRun));
  EXPECT_EQ(decision.answer, Answer::restart);
  EXPECT_EQ(decision.delay.count(), 0);
}

TEST(RestartPolicyOfAJob, AllTasksShareTheLimit) {
  RestartPolicy policy(RestartPolicy::for_job(2));
  EXPECT_EQ(policy.on_job_end(killed(kAWorker)).counted, 1);
  EXPECT_EQ(policy.on_job_end(killed(kAServer, kShortRun)).counted, 2);
  EXPECT_EQ(policy.on_job_end(killed({TaskType::chief, 0})).answer, Answer::limit_reached);
}

TEST(RestartPolicyOfAJob, AFourthQuickPreemptionInARowCounts) {
  RestartPolicy policy(RestartPolicy::for_job(1));
  auto preempted = [&](milliseconds ran_for) {
    return policy.on_job_end(ended(kAWorker, {.code = 42}, ran_for));
  };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(preempted(kLongRun).is_free);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(preempted(kShortRun).is_free);
  EXPECT_TRUE(preempted(milliseconds(10'000)).is_free);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(preempted(kShortRun).is_free);
  const auto fourth = preempted(kShortRun);
  EXPECT_FALSE(fourth.is_free);
  EXPECT_EQ(fourth.counted, 1);
  EXPECT_EQ(fourth.quick_deaths, 4);
  EXPECT_EQ(preempted(kShortRun).answer, Answer::limit_reached);
}

}  // namespace
}  // namespace cohort::launch
