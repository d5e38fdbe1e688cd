#include "cohort/train/data/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

TEST(BatchPlan, EverySampleIsComputedOnceInAnEpochByAnyNumberOfWorkers) {
  for (const std::int64_t n : {0, 1, 2, 7, 31, 32, 33, 100, 257})
    for (const std::int64_t batch : {1, 2, 5, 8, 32, 64, 300})
      for (const std::int64_t shards : {1, 2, 3, 4, 8, 13})
        for (const bool shuffle : {true, false}) {
          const BatchPlan plan({.samples = n,
                                .global_batch = batch,
                                .shards = shards,
                                .seed = 7,
                                .shuffle = shuffle});
          const EpochPlan epoch(plan, 3);
          ASSERT_EQ(plan.steps_per_epoch(), (n + batch - 1) / batch);
          std::vector<std::int64_t> alone;  // the order of one worker
          for (const int workers : {1, 2, 3, 4, 5, 8, 16}) {
            if (workers > shards) continue;
            std::vector<std::int64_t> order;
            std::vector<int> seen(static_cast<std::size_t>(n));
            for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step)
              for (int rank = 0; rank < workers; ++rank) {
                const ShardRange mine = shards_of(rank, workers, static_cast<int>(shards));
                std::vector<std::int64_t> by_shard;
                for (std::int64_t shard = mine.begin; shard < mine.end; ++shard)
                  for (const std::int64_t index : epoch.indices(step, shard))
                    by_shard.push_back(index);
                const auto at_once = epoch.indices(step, mine);
                ASSERT_TRUE(
                    std::equal(at_once.begin(), at_once.end(), by_shard.begin(), by_shard.end()));
                for (const std::int64_t index : by_shard) ++seen[static_cast<std::size_t>(index)];
                order.insert(order.end(), by_shard.begin(), by_shard.end());
              }
            ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }))
                << n << " samples, batch " << batch << ", " << shards << " shards, " << workers
                << " workers";
            if (workers == 1) alone = order;
            ASSERT_EQ(order, alone);
          }
        }
}

TEST(BatchPlan, ShardsOfAStepAreBalancedAlsoInTheLastBatch) {
  for (const std::int64_t n : {5, 100, 103})
    for (const std::int64_t shards : {1, 3, 8}) {
      const BatchPlan plan({.samples = n, .global_batch = 10, .shards = shards});
      for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
        std::int64_t least = n, most = 0;
        for (std::int64_t shard = 0; shard < shards; ++shard) {
          const std::int64_t size = plan.positions(step, shard).size();
          least = std::min(least, size);
          most = std::max(most, size);
        }
        EXPECT_LE(most - least, 1);
      }
    }
  // 3 samples over 8 shards and 2 workers: neither worker has them all.
  const BatchPlan plan({.samples = 13, .global_batch = 10, .shards = 8});
  EXPECT_EQ(plan.positions(1, shards_of(0, 2, 8)).size(), 1);
  EXPECT_EQ(plan.positions(1, shards_of(1, 2, 8)).size(), 2);
}

TEST(BatchPlan, DropLastLeavesOutThePartialBatchOnly) {
  const BatchPlan plan({.samples = 25, .global_batch = 10, .drop_last = true});
  EXPECT_EQ(plan.steps_per_epoch(), 2);
  EXPECT_EQ(plan.samples_per_epoch(), 20);
  EXPECT_EQ(plan.batch(1), (Range{10, 20}));
  EXPECT_THROW(plan.batch(2), Error);
  EXPECT_EQ(BatchPlan({.samples = 9, .global_batch = 10, .drop_last = true}).steps_per_epoch(), 0);
}

TEST(BatchPlan, EpochsAreShuffledDifferentlyAndRepeatably) {
  const BatchPlan plan({.samples = 100, .global_batch = 100, .seed = 5});
  const auto order = [&](std::int64_t epoch) {
    const EpochPlan of(plan, epoch);
    return std::vector<std::int64_t>(of.batch(0).begin(), of.batch(0).end());
  };
  EXPECT_EQ(order(0), order(0));
  EXPECT_NE(order(0), order(1));
}

TEST(BatchPlan, DoesNotOverflowForHugeCounts) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const BatchPlan plan({.samples = kHuge, .global_batch = kHuge, .shards = 1000});
  EXPECT_EQ(plan.positions(0, 999).end, kHuge);
}

TEST(BatchPlan, RefusesSizesThatCannotBe) {
  EXPECT_THROW(BatchPlan({.samples = -1}), InvalidInput);
  EXPECT_THROW(BatchPlan({.samples = 1, .global_batch = 0}), InvalidInput);
  EXPECT_THROW(BatchPlan({.samples = 1, .shards = 0}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
