#include "cohort/ps/server/snapshot_cut.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

std::vector<std::uint64_t> limits_of(const SnapshotCut& cut) {
  return {cut.limits().begin(), cut.limits().end()};
}

TEST(SnapshotCut, HoldsWhatIsNotBegunUntilTheCopyIsMade) {
  SnapshotCut cut(false, 2);
  EXPECT_FALSE(cut.can_begin());
  cut.hold(0, 11);
  ASSERT_TRUE(cut.can_begin());
  const auto [worker, held] = cut.begin_next({4, 6});
  EXPECT_EQ(worker, 0);
  EXPECT_EQ(held, (Held{11, {4, 6}}));
  EXPECT_EQ(limits_of(cut), (std::vector<std::uint64_t>{4, 6}));
  EXPECT_FALSE(cut.is_cutting());
  EXPECT_TRUE(cut.cut(0, {11, {5, 6}}));
  EXPECT_TRUE(cut.is_cutting());
  EXPECT_EQ(limits_of(cut), (std::vector<std::uint64_t>{5, 6}));
  cut.copied();
  EXPECT_TRUE(cut.limits().empty());
  EXPECT_FALSE(cut.is_idle()) << "until it is sent";
  cut.sent(11);
  EXPECT_TRUE(cut.is_idle());
}

TEST(SnapshotCut, InSyncTheCutIsOneStepForAll) {
  SnapshotCut cut(true, 3);
  cut.hold(1, 1);
  EXPECT_EQ(cut.begin_next({4, 4, 4}).second.sequences, (std::vector<std::uint64_t>{4, 4, 4}));
  EXPECT_TRUE(cut.cut(1, {1, {4, 5, 4}}));
  EXPECT_EQ(limits_of(cut), (std::vector<std::uint64_t>{5, 5, 5}));
}

TEST(SnapshotCut, OneAtATimeAndTheNextWhenItIsSent) {
  SnapshotCut cut(false, 2);
  cut.hold(0, 1);
  cut.hold(1, 2);
  cut.begin_next({0, 0});
  EXPECT_FALSE(cut.can_begin());
  EXPECT_FALSE(cut.cut(1, {2, {0, 0}})) << "it is not its turn";
  cut.cut(0, {1, {0, 0}});
  cut.copied();
  EXPECT_FALSE(cut.can_begin());
  cut.sent(1);
  ASSERT_TRUE(cut.can_begin());
  EXPECT_EQ(cut.begin_next({0, 0}).first, 1);
}

TEST(SnapshotCut, AHolderThatIsGoneHoldsNothing) {
  SnapshotCut cut(false, 2);
  cut.hold(0, 1);
  cut.hold(1, 2);
  cut.begin_next({3, 3});
  cut.release(0);
  EXPECT_TRUE(cut.limits().empty());
  ASSERT_TRUE(cut.can_begin());
  EXPECT_EQ(cut.begin_next({3, 3}).first, 1);
  cut.release(1);
  EXPECT_TRUE(cut.is_idle());
  cut.sent(2);  // of a connection that is gone
  EXPECT_FALSE(cut.can_begin());
}

TEST(SnapshotCut, AskingAgainBeginsAnew) {
  SnapshotCut cut(false, 1);
  cut.hold(0, 1);
  cut.begin_next({1});
  cut.hold(0, 2);
  ASSERT_TRUE(cut.can_begin());
  EXPECT_EQ(cut.begin_next({1}).second.request, 2u);
  EXPECT_FALSE(cut.cut(0, {1, {1}}));
}

TEST(SnapshotCut, ACutBeforeWhatIsInIsRefused) {
  SnapshotCut cut(false, 2);
  cut.hold(0, 1);
  cut.begin_next({3, 3});
  EXPECT_THROW(cut.cut(0, {1, {3, 2}}), ProtocolError);
  EXPECT_THROW(cut.cut(0, {1, {3}}), ProtocolError);
}

}  // namespace
}  // namespace cohort::ps
