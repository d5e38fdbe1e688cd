#include "cohort/collective/reduction/shards.h"

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

TEST(Shards, GivenRunsMayBeEmptyButMustAscendAndCoverAll) {
  EXPECT_EQ(runs_of(3, 4).size(), 3u);
  const auto runs = runs_of(3, 4, {{0, 2}, {}, {2, 2}});
  EXPECT_EQ(runs[2].first, 2);
  EXPECT_EQ(first_owner(runs), 0);
  EXPECT_EQ(first_owner(runs_of(3, 1, {{}, {}, {0, 1}})), 2);
  EXPECT_EQ(first_owner({}), 0);
  const auto why = [](int ranks, std::vector<ShardRange> given) {
    return message_of<InvalidInput>([&] { runs_of(ranks, 4, given); });
  };
  EXPECT_THAT(why(2, {{0, 4}}), ::testing::HasSubstr("1 runs of shards for 2 ranks"));
  EXPECT_THAT(why(2, {{2, 2}, {0, 2}}), ::testing::HasSubstr("rank 0 has 2 shards from 2 on"));
  EXPECT_THAT(why(2, {{0, 2}, {2, 1}}), ::testing::HasSubstr("cover 3 of 4 shards"));
  EXPECT_THAT(why(2, {{0, 5}, {5, -1}}), ::testing::HasSubstr("rank 1 has -1 shards"));
}

TEST(ShardPlan, OfNoShardsHasNoNodes) {
  for (const int shards : {0, 1, 5}) {
    const ShardPlan plan(shards, {});
    EXPECT_TRUE(plan.nodes().empty());
    EXPECT_TRUE(plan.steps().empty());
  }
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
