#include "cohort/launch/plan/placement.h"

#include <gtest/gtest.h>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;

TaskId worker(int index) { return {TaskType::worker, index}; }

TEST(SpreadOverHosts, FillsSlotsInOrder) {
  EXPECT_EQ(spread_over_hosts({{"a", 2}, {"b", 2}}, 3), (std::vector<std::string>{"a", "a", "b"}));
}

TEST(SpreadOverHosts, SharesTheRestAmongHostsWithoutSlots) {
  EXPECT_EQ(spread_over_hosts({{"a", 1}, {"b", {}}, {"c", {}}}, 4),
            (std::vector<std::string>{"a", "b", "b", "c"}));
  EXPECT_EQ(spread_over_hosts({{"a", 2}, {"b", {}}}, 2), (std::vector<std::string>{"a", "a"}));
}

TEST(Placement, GivesEachSlotOnce) {
  Placement placement;
  placement.set_hosts({{"a", 1}, {"b", 2}});
  EXPECT_EQ(placement.slots(), 3);
  EXPECT_EQ(placement.take(worker(0)), "a");
  EXPECT_EQ(placement.take(worker(1)), "b");
  EXPECT_EQ(placement.take(worker(2)), "b");
  EXPECT_EQ(placement.take(worker(3)), std::nullopt);
  placement.leave(worker(1));
  EXPECT_EQ(placement.take(worker(3)), "b");
}

TEST(Placement, BringsAWorkerBackToItsHost) {
  Placement placement;
  placement.set_hosts({{"a", 2}, {"b", 2}});
  for (int i = 0; i < 3; ++i) placement.take(worker(i));
  placement.leave(worker(0));
  placement.leave(worker(2));
  EXPECT_EQ(placement.take(worker(2)), "b");  // though a has room
  EXPECT_EQ(placement.take(worker(2)), "b");  // started again without having left
  EXPECT_EQ(placement.take(worker(0)), "a");
}

TEST(Placement, NamesTheWorkersWhoseHostIsGone) {
  Placement placement;
  placement.set_hosts({{"a", 2}, {"b", 2}});
  for (int i = 0; i < 4; ++i) placement.take(worker(i));
  EXPECT_EQ(placement.set_hosts({{"a", 1}, {"c", 1}}),
            (std::vector<TaskId>{worker(1), worker(2), worker(3)}));
  EXPECT_EQ(placement.take(worker(1)), "c");
  EXPECT_EQ(placement.take(worker(2)), std::nullopt);
}

}  // namespace
}  // namespace cohort::launch
