#include "cohort/ps/server/snapshot_coordinator.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

std::vector<std::uint64_t> limits_of(const SnapshotCoordinator& snapshot) {
  return {snapshot.limits().begin(), snapshot.limits().end()};
}

TEST(SnapshotCoordinator, HoldsWhatIsNotBegunUntilTheCopyIsMade) {
  SnapshotCoordinator snapshot(false, 2);
  EXPECT_FALSE(snapshot.can_begin());
  snapshot.freeze(0, 11);
  ASSERT_TRUE(snapshot.can_begin());
  const auto [worker, held] = snapshot.begin_next({4, 6});
  EXPECT_EQ(worker, 0);
  EXPECT_EQ(held, (Frozen{11, {4, 6}}));
  EXPECT_EQ(limits_of(snapshot), (std::vector<std::uint64_t>{4, 6}));
  EXPECT_FALSE(snapshot.is_copy_due());
  EXPECT_TRUE(snapshot.request(0, {11, {5, 6}}));
  EXPECT_TRUE(snapshot.is_copy_due());
  EXPECT_EQ(limits_of(snapshot), (std::vector<std::uint64_t>{5, 6}));
  snapshot.copied();
  EXPECT_TRUE(snapshot.limits().empty());
  EXPECT_FALSE(snapshot.is_idle()) << "until it is sent";
  snapshot.sent(11);
  EXPECT_TRUE(snapshot.is_idle());
}

TEST(SnapshotCoordinator, InSyncTheCutIsOneStepForAll) {
  SnapshotCoordinator snapshot(true, 3);
  snapshot.freeze(1, 1);
  EXPECT_EQ(snapshot.begin_next({4, 4, 4}).second.sequences, (std::vector<std::uint64_t>{4, 4, 4}));
  EXPECT_TRUE(snapshot.request(1, {1, {4, 5, 4}}));
  EXPECT_EQ(limits_of(snapshot), (std::vector<std::uint64_t>{5, 5, 5}));
}

TEST(SnapshotCoordinator, OneAtATimeAndTheNextWhenItIsSent) {
  SnapshotCoordinator snapshot(false, 2);
  snapshot.freeze(0, 1);
  snapshot.freeze(1, 2);
  snapshot.begin_next({0, 0});
  EXPECT_FALSE(snapshot.can_begin());
  EXPECT_FALSE(snapshot.request(1, {2, {0, 0}})) << "it is not its turn";
  snapshot.request(0, {1, {0, 0}});
  snapshot.copied();
  EXPECT_FALSE(snapshot.can_begin());
  snapshot.sent(1);
  ASSERT_TRUE(snapshot.can_begin());
  EXPECT_EQ(snapshot.begin_next({0, 0}).first, 1);
}

TEST(SnapshotCoordinator, AHolderThatIsGoneHoldsNothing) {
  SnapshotCoordinator snapshot(false, 2);
  snapshot.freeze(0, 1);
  snapshot.freeze(1, 2);
  snapshot.begin_next({3, 3});
  snapshot.release(0);
  EXPECT_TRUE(snapshot.limits().empty());
  ASSERT_TRUE(snapshot.can_begin());
  EXPECT_EQ(snapshot.begin_next({3, 3}).first, 1);
  snapshot.release(1);
  EXPECT_TRUE(snapshot.is_idle());
  snapshot.sent(2);  // of a connection that is gone
  EXPECT_FALSE(snapshot.can_begin());
}

TEST(SnapshotCoordinator, AskingAgainBeginsAnew) {
  SnapshotCoordinator snapshot(false, 1);
  snapshot.freeze(0, 1);
  snapshot.begin_next({1});
  snapshot.freeze(0, 2);
  ASSERT_TRUE(snapshot.can_begin());
  EXPECT_EQ(snapshot.begin_next({1}).second.request, 2u);
  EXPECT_FALSE(snapshot.request(0, {1, {1}}));
}

TEST(SnapshotCoordinator, ACutBeforeWhatIsInIsRefused) {
  SnapshotCoordinator snapshot(false, 2);
  snapshot.freeze(0, 1);
  snapshot.begin_next({3, 3});
  EXPECT_THROW(snapshot.request(0, {1, {3, 2}}), ProtocolError);
  EXPECT_THROW(snapshot.request(0, {1, {3}}), ProtocolError);
}

}  // namespace
}  // namespace cohort::ps
