#include "cohort/launch/supervise/lone_restarts.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using std::chrono::milliseconds;
using Flag = RestartStateOwner::Flag;
using LoneVerdict = LoneRestarts::Verdict;

const TaskId kPs{TaskType::ps, 0};
const TaskId kWorker{TaskType::worker, 1};
constexpr milliseconds kLong{60'000};

TaskRecord ended(TaskId id, ExitStatus exit, milliseconds ran_for = kLong, int restarts = 0) {
  TaskRecord record{.id = id};
  record.ran_for = ran_for;
  record.exit = exit;
  record.restarts = restarts;
  return record;
}

TEST(LoneRestarts, OnlyATaskThatAskedAndWasKilledIsStartedAgain) {
  LoneRestarts restarts(3);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.signal = SIGKILL}), Flag::restart), LoneVerdict::restart);
  EXPECT_EQ(restarts.on_exit(ended(kWorker, {.signal = SIGSEGV}), Flag::restart),
            LoneVerdict::restart);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.signal = SIGKILL}), Flag::no_restart),
            LoneVerdict::no_case);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.code = 137}), Flag::restart), LoneVerdict::no_case);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.code = 0}), Flag::restart), LoneVerdict::no_case);
}

TEST(LoneRestarts, WhoeverWasToldToGoIsNot) {
  LoneRestarts restarts(3);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.signal = SIGTERM}), Flag::restart), LoneVerdict::no_case);
}

TEST(LoneRestarts, WithServersATaskThatIsKilledBeforeItCouldAskIsStartedAgain) {
  const TaskRecord early = ended(kWorker, {.signal = SIGKILL}, milliseconds(300));
  EXPECT_EQ(LoneRestarts(3, true).on_exit(early, Flag::nothing), LoneVerdict::restart);
  EXPECT_EQ(LoneRestarts(3, false).on_exit(early, Flag::nothing), LoneVerdict::no_case);
  EXPECT_EQ(LoneRestarts(3, true).on_exit(early, Flag::no_restart), LoneVerdict::no_case);
  EXPECT_EQ(LoneRestarts(3, true).on_exit(early, Flag::finished), LoneVerdict::no_case);
  EXPECT_EQ(LoneRestarts(3, true).on_exit(ended(kWorker, {.signal = SIGKILL}), Flag::nothing),
            LoneVerdict::no_case);  // it has run for long: no program of ours
  EXPECT_EQ(LoneRestarts(3, true).on_exit(ended(kWorker, {.signal = SIGSEGV}, milliseconds(300)),
                                          Flag::nothing),
            LoneVerdict::no_case);
}

TEST(LoneRestarts, ALimitOf0SwitchesThemOffForServersToo) {
  LoneRestarts restarts(0);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.signal = SIGKILL}), Flag::restart), LoneVerdict::no_case);
  EXPECT_EQ(restarts.on_exit(ended(kWorker, {.signal = SIGKILL}), Flag::restart),
            LoneVerdict::no_case);
}

TEST(LoneRestarts, TheLimitIsOfTasksThatTrainAndNotOfServers) {
  LoneRestarts restarts(2);
  EXPECT_EQ(restarts.on_exit(ended(kWorker, {.signal = SIGKILL}, kLong, 1), Flag::restart),
            LoneVerdict::restart);
  EXPECT_EQ(restarts.on_exit(ended(kWorker, {.signal = SIGKILL}, kLong, 2), Flag::restart),
            LoneVerdict::used_up);
  EXPECT_EQ(restarts.on_exit(ended(kPs, {.signal = SIGKILL}, kLong, 500), Flag::restart),
            LoneVerdict::restart);
}

TEST(LoneRestarts, FiveQuickDeathsInARowAreALoopAndALongLifeBreaksTheRow) {
  LoneRestarts restarts(3);
  auto die = [&](milliseconds ran_for) {
    return restarts.on_exit(ended(kPs, {.signal = SIGSEGV}, ran_for), Flag::restart);
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(die(milliseconds(999)), LoneVerdict::restart);
  EXPECT_EQ(die(milliseconds(1000)), LoneVerdict::restart);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(die(milliseconds(10)), LoneVerdict::restart);
  EXPECT_EQ(restarts.on_exit(ended({TaskType::ps, 1}, {.signal = SIGKILL}, milliseconds(1)),
                             Flag::restart),
            LoneVerdict::restart);  // another's deaths do not count
  EXPECT_EQ(die(milliseconds(10)), LoneVerdict::crash_loop);
}

}  // namespace
}  // namespace cohort::launch
