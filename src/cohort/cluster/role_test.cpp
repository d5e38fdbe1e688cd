#include "cohort/cluster/role.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

std::vector<int> numbers(const Role& role) {
  return {role.rank, role.size, role.local_rank, role.local_size, role.cross_rank, role.cross_size};
}

TEST(FillRanks, ChiefFirstThenWorkersAndHostsInOrderOfAppearance) {
  auto of = [](TaskType type, int index) { return numbers(role_in(two_hosts(), {type, index})); };
  EXPECT_EQ(of(TaskType::chief, 0), (std::vector<int>{0, 4, 0, 2, 0, 2}));
  EXPECT_EQ(of(TaskType::worker, 0), (std::vector<int>{1, 4, 1, 2, 0, 2}));
  EXPECT_EQ(of(TaskType::worker, 1), (std::vector<int>{2, 4, 0, 2, 1, 2}));
  EXPECT_EQ(of(TaskType::worker, 2), (std::vector<int>{3, 4, 1, 2, 1, 2}));
}

TEST(FillRanks, TasksThatDoNotTrainHaveNoRank) {
  EXPECT_EQ(numbers(role_in(two_hosts(), {TaskType::ps, 1})),
            (std::vector<int>{-1, 4, -1, 2, 1, 2}));
  EXPECT_EQ(numbers(role_in(two_hosts(), {TaskType::evaluator, 0})),
            (std::vector<int>{-1, 4, -1, 2, 0, 2}));
  EXPECT_EQ(numbers(role_in(two_hosts(), {TaskType::chief, 0}, false)),
            (std::vector<int>{-1, 3, -1, 1, 0, 2}));
  EXPECT_EQ(numbers(role_in(two_hosts(), {TaskType::worker, 0}, false)),
            (std::vector<int>{0, 3, 0, 1, 0, 2}));
}

TEST(FillRanks, AnEvaluatorNeedNotBeInTheClusterButOthersMust) {
  ClusterSpec cluster = two_hosts();
  cluster.set(TaskType::evaluator, {});
  EXPECT_EQ(numbers(role_in(cluster, {TaskType::evaluator, 0})),
            (std::vector<int>{-1, 4, -1, 0, -1, 2}));
  expect_invalid([&] { role_in(cluster, {TaskType::evaluator, 1}); }, {"evaluator/1"});
  expect_invalid([&] { role_in(cluster, {TaskType::ps, 2}); }, {"ps/2", "out of range"});
}

TEST(Role, KnowsItsHostAndWhetherItIsTheChief) {
  EXPECT_TRUE(role_in(two_hosts(), {TaskType::chief, 0}).is_chief());
  EXPECT_FALSE(role_in(two_hosts(), {TaskType::worker, 0}).is_chief());
  EXPECT_TRUE(role_in(two_hosts(), {TaskType::chief, 0}, false).is_chief());
  EXPECT_FALSE(role_in(two_hosts(), {TaskType::worker, 0}, false).is_chief());
  EXPECT_EQ(role_in(two_hosts(), {TaskType::worker, 1}).host(), "fe80::1");
  Role alone;
  EXPECT_TRUE(alone.is_chief());
  EXPECT_EQ(alone.host(), "localhost");
  alone.rank = 1;
  EXPECT_FALSE(alone.is_chief());
}

}  // namespace
}  // namespace cohort::cluster
