#include "cohort/ps/server/clocks.h"

#include <gtest/gtest.h>

namespace cohort::ps {
namespace {

using namespace std::chrono_literals;

const Clocks::Time kStart{};

Clocks bounded(std::int64_t staleness, int workers, int targets = 1) {
  return {{.mode = Policy::Mode::bounded, .staleness = staleness},
          workers,
          std::vector(static_cast<std::size_t>(targets),
                      std::vector<std::uint64_t>(static_cast<std::size_t>(workers))),
          kStart};
}

TEST(Clocks, AStepIsFinishedWhenEveryTargetHasIt) {
  auto clocks = bounded(0, 1, 3);
  EXPECT_FALSE(clocks.settle(0, 1));
  EXPECT_FALSE(clocks.settle(0, 1));
  EXPECT_EQ(clocks.finished(0), 0u);
  EXPECT_TRUE(clocks.settle(0, 1));
  EXPECT_EQ(clocks.finished(0), 1u);
  EXPECT_FALSE(clocks.settle(0, 1)) << "again is nothing new";
  EXPECT_EQ(clocks.finished(0), 1u);
}

TEST(Clocks, RecoveredLedgersGiveTheSlowestTarget) {
  Clocks clocks({}, 2, {{5, 7}, {4, 7}, {5, 7}}, kStart);
  EXPECT_EQ(clocks.finished(0), 4u);
  EXPECT_EQ(clocks.finished(1), 7u);
  EXPECT_TRUE(clocks.settle(0, 5)) << "the two other targets have it already";
  EXPECT_EQ(clocks.finished(0), 5u);
}

TEST(Clocks, BoundedAllowsNoWorkerMoreThanSAheadOfTheSlowest) {
  for (std::uint64_t staleness : {0u, 1u, 3u}) {
    auto clocks = bounded(static_cast<std::int64_t>(staleness), 2);
    EXPECT_TRUE(clocks.allows(1 + staleness));
    EXPECT_FALSE(clocks.allows(2 + staleness));
    clocks.settle(0, 1);
    EXPECT_FALSE(clocks.allows(2 + staleness)) << "worker/1 has not finished step 1";
    clocks.settle(1, 1);
    EXPECT_TRUE(clocks.allows(2 + staleness));
    EXPECT_FALSE(clocks.allows(3 + staleness));
  }
}

TEST(Clocks, AsyncAllowsEverything) {
  Clocks clocks({.mode = Policy::Mode::async}, 2, {{0, 0}}, kStart);
  EXPECT_TRUE(clocks.allows(1000));
}

TEST(Clocks, WhoLeavesIsNotWaitedFor) {
  auto clocks = bounded(0, 2);
  clocks.settle(0, 1);
  EXPECT_FALSE(clocks.allows(2));
  clocks.left(1);
  EXPECT_TRUE(clocks.allows(2));
  EXPECT_EQ(clocks.available(), 1);
}

TEST(Clocks, WhoIsAwayForTooLongIsGivenUpOnce) {
  auto clocks = bounded(0, 2);
  clocks.came(0);
  clocks.came(1);
  EXPECT_EQ(clocks.next_give_up(1s), Clocks::Time::max());
  clocks.lost(1, kStart + 5s);
  EXPECT_EQ(clocks.next_give_up(1s), kStart + 6s);
  EXPECT_TRUE(clocks.give_up(kStart + 5900ms, 1s).empty());
  EXPECT_EQ(clocks.give_up(kStart + 6s, 1s), std::vector{1});
  EXPECT_TRUE(clocks.give_up(kStart + 9s, 1s).empty());
  EXPECT_FALSE(clocks.is_expected(1));
  EXPECT_EQ(clocks.describe_missing(kStart + 7s), "worker/1 (away for 2.0 s)");
}

TEST(Clocks, WhoNeverCameIsGivenUpToo) {
  auto clocks = bounded(0, 2);
  clocks.came(0);
  EXPECT_EQ(clocks.give_up(kStart + 1s, 1s), std::vector{1});
}

TEST(Clocks, WhoComesBackInTimeIsStillWaitedFor) {
  auto clocks = bounded(0, 2);
  clocks.came(0);
  clocks.came(1);
  clocks.lost(1, kStart + 1s);
  clocks.came(1);
  clocks.settle(0, 1);
  EXPECT_FALSE(clocks.allows(2));
}

TEST(Clocks, AWorkerThatWasGivenUpHoldsNoOtherUntilItHasCaughtUp) {
  auto clocks = bounded(0, 2);
  clocks.came(0);
  clocks.give_up(kStart + 1s, 1s);
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) clocks.settle(0, sequence);
  clocks.came(1);
  EXPECT_TRUE(clocks.allows(6)) << "worker/1 is five steps behind";
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) clocks.settle(1, sequence);
  EXPECT_TRUE(clocks.is_expected(1));
  clocks.settle(0, 6);
  EXPECT_FALSE(clocks.allows(7));
}

TEST(Clocks, WithoutTargetsNoWorkerHoldsAnother) {
  Clocks clocks({.mode = Policy::Mode::bounded}, 2, {}, kStart);
  EXPECT_EQ(clocks.finished(0), Clocks::kForever);
  EXPECT_TRUE(clocks.allows(1000));
}

}  // namespace
}  // namespace cohort::ps
