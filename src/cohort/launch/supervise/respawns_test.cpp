#include "cohort/launch/supervise/respawns.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using std::chrono::milliseconds;
using RespawnVerdict = Respawns::Verdict;

constexpr milliseconds kLongLife{60'000};
constexpr milliseconds kShort{100};

TaskRecord ended(ExitStatus exit, milliseconds ran_for = kLongLife, int index = 1) {
  TaskRecord record{.id = {TaskType::worker, index}};
  record.ran_for = ran_for;
  record.exit = exit;
  return record;
}

TEST(Respawns, SignalsAndExitCodesAlikeAreStartedAgainUpToTheLimitOfEachTask) {
  Respawns respawns(2);
  auto first = respawns.on_death(ended({.signal = SIGKILL}), true);
  EXPECT_EQ(first.verdict, RespawnVerdict::start_again);
  EXPECT_EQ(first.charged, 1);
  EXPECT_EQ(respawns.on_death(ended({.code = 3}), true).charged, 2);
  EXPECT_EQ(respawns.on_death(ended({.code = 3}), true).verdict, RespawnVerdict::used_up);
  EXPECT_EQ(respawns.on_death(ended({.code = 3}, kLongLife, 2), true).charged, 1);
  EXPECT_EQ(Respawns(0).on_death(ended({.signal = SIGKILL}), true).verdict,
            RespawnVerdict::used_up);
}

TEST(Respawns, APreemptedWorkerIsNotChargedUnlessItWasQuick) {
  Respawns respawns(1);
  for (int i = 0; i < 20; ++i) {
    auto decision = respawns.on_death(ended({.code = 42}), true);
    EXPECT_EQ(decision.verdict, RespawnVerdict::start_again);
    EXPECT_TRUE(decision.is_preemption);
    EXPECT_EQ(decision.charged, 0);
  }
  EXPECT_EQ(respawns.on_death(ended({.signal = SIGTERM}, kShort), true).charged, 1);
  EXPECT_EQ(respawns.on_death(ended({.signal = SIGTERM}, kShort), true).verdict,
            RespawnVerdict::used_up);
  EXPECT_EQ(respawns.on_death(ended({.code = 143}), true).verdict, RespawnVerdict::start_again);
}

TEST(Respawns, WhoDiesAgainSoonAfterItsStartWaitsEverLonger) {
  Respawns respawns(100);
  auto delay = [&](milliseconds ran_for) {
    return respawns.on_death(ended({.signal = SIGSEGV}, ran_for), true).delay.count();
  };
  EXPECT_EQ(delay(kLongLife), 0);
  for (int expected : {0, 250, 500, 1000, 2000, 4000, 5000, 5000})
    EXPECT_EQ(delay(kShort), expected);
  EXPECT_EQ(delay(Respawns::kQuick), 0);  // it lived: the row is broken
  EXPECT_EQ(delay(kShort), 0);
  EXPECT_EQ(delay(kShort), 250);
}

TEST(Respawns, AUsageErrorBeforeItsFirstViewIsNotRepeated) {
  Respawns respawns(10);
  EXPECT_EQ(respawns.on_death(ended({.code = 2}), false).verdict, RespawnVerdict::usage_error);
  EXPECT_EQ(respawns.on_death(ended({.code = 2}), true).verdict, RespawnVerdict::start_again);
  EXPECT_EQ(respawns.on_death(ended({.signal = SIGINT}), false).verdict,
            RespawnVerdict::start_again);
}

TEST(Respawns, AForgivenTaskCountsFromTheBeginning) {
  Respawns respawns(1);
  respawns.on_death(ended({.code = 3}, kShort), true);
  EXPECT_EQ(respawns.on_death(ended({.code = 3}, kShort), true).verdict, RespawnVerdict::used_up);
  respawns.forgive({TaskType::worker, 1});
  auto decision = respawns.on_death(ended({.code = 3}, kShort), true);
  EXPECT_EQ(decision.verdict, RespawnVerdict::start_again);
  EXPECT_EQ(decision.delay.count(), 0);
}

}  // namespace
}  // namespace cohort::launch
