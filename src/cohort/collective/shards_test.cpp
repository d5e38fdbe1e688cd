#include "cohort/collective/shards.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::collective {
namespace {

TEST(Shards, AreDividedIntoBalancedRunsThatCoverAll) {
  for (int shards = 1; shards <= 20; ++shards)
    for (int ranks = 1; ranks <= shards; ++ranks) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ShardRange run = shards_of(rank, ranks, shards);
        EXPECT_EQ(run.first, next);
        EXPECT_GE(run.count, shards / ranks);
        EXPECT_LE(run.count, (shards + ranks - 1) / ranks);
        next += run.count;
      }
      EXPECT_EQ(next, shards);
    }
}

TEST(Shards, FewerThanRanksAreRefusedByNumber) {
  const std::string message = message_of<InvalidInput>([] { shards_of(0, 4, 3); });
  EXPECT_THAT(message, ::testing::HasSubstr("3 virtual shards are too few for 4 replicas"));
  EXPECT_THAT(message, ::testing::HasSubstr("at least 4"));
}

TEST(ShardPlan, CombinesAsSoonAsTwoNeighboursAreOneNode) {
  const ShardPlan plan(8, {0, 4});
  ASSERT_EQ(plan.steps().size(), 4u);
  EXPECT_EQ(plan.steps()[0].inputs.size(), 1u);
  EXPECT_EQ(plan.steps()[0].final, -1);
  EXPECT_EQ(plan.steps()[1].inputs.size(), 2u);  // 0 + 1
  EXPECT_EQ(plan.steps()[2].inputs.size(), 1u);
  EXPECT_EQ(plan.steps()[3].inputs.size(), 3u);  // (0 + 1) + (2 + 3)
  EXPECT_EQ(plan.steps()[3].final, 0);
  EXPECT_EQ(plan.nodes(), (std::vector<Subtree>{{0, 4}}));
}

TEST(ShardPlan, KeepsWhatNoOwnNodeHolds) {
  const ShardPlan plan(8, {3, 3});  // 3 | 4 5
  EXPECT_EQ(plan.nodes(), (std::vector<Subtree>{{3, 1}, {4, 2}}));
  EXPECT_EQ(plan.steps()[0].final, 0);
  EXPECT_EQ(plan.steps()[1].final, -1);
  EXPECT_EQ(plan.steps()[2].final, 1);
  EXPECT_EQ(plan.steps()[2].inputs.size(), 2u);
}

}  // namespace
}  // namespace cohort::collective
