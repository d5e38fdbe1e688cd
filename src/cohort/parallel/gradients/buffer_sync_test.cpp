#include "cohort/parallel/gradients/buffer_sync.h"

#include <gtest/gtest.h>

#include <limits>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/strategies/replicas_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;

TEST(BufferSync, CombinesEachKindOfBufferInItsWay) {
  for (const int size : {1, 2, 3}) {
    run_replicas(size, [](Group& group) {
      constexpr int kShards = 5;
      torch::Tensor mean = torch::zeros({3}), wide = torch::zeros({2}, torch::kDouble);
      torch::Tensor mask = torch::full({2}, -std::numeric_limits<float>::infinity());
      torch::Tensor constant = torch::full({4}, 0.1f);
      torch::Tensor count = torch::zeros({}, torch::kLong), flag = torch::zeros({1}, torch::kBool);
      BufferSync buffers(group,
                         {{"mean", mean},
                          {"wide", wide},
                          {"mask", mask},
                          {"constant", constant},
                          {"count", count},
                          {"flag", flag},
                          {"mean again", mean}},
                         kShards);
      const auto own = collective::shards_of(group.rank(), group.size(), kShards);
      for (int step = 0; step < 2; ++step) {
        for (int shard = own.first; shard < own.first + own.count; ++shard) {
          buffers.begin_shard();
          EXPECT_EQ(count.item<std::int64_t>(), step);  // as before the step
          const bool has_samples = shard != 4;
          if (has_samples) {
            mean.add_(shard);
            wide.add_(10 * shard);
            count.add_(1);
            flag.fill_(shard == 0);
          }
          buffers.end_shard(has_samples ? 0.25 : 0);
        }
        buffers.finish(soon());
        EXPECT_TRUE(torch::equal(mean, torch::full({3}, 1.5 * (step + 1))));
        EXPECT_TRUE(torch::equal(wide, torch::full({2}, 15.0 * (step + 1), torch::kDouble)));
        EXPECT_TRUE(torch::isneginf(mask).all().item<bool>());
        EXPECT_TRUE(torch::equal(constant, torch::full({4}, 0.1f)));
        EXPECT_EQ(count.item<std::int64_t>(), step + 1);
        EXPECT_TRUE(flag.item<bool>());
      }
    });
  }
}

// The other rank makes no call: a collective would end at its deadline, and break the group.
TEST(BufferSync, WithoutBuffersNoOtherRankIsAsked) {
  const auto groups = collective::make_inproc_groups(2);
  BufferSync buffers(*groups[0], {}, 3);
  EXPECT_NO_THROW(buffers.begin_shard());
  EXPECT_NO_THROW(buffers.end_shard(1));
  EXPECT_NO_THROW(buffers.finish(Deadline::after(std::chrono::milliseconds(200))));
  EXPECT_NO_THROW(buffers.end_shard(1));  // nor is the order of calls
}

TEST(BufferSync, CallsOutOfTurnAreRefused) {
  const auto group = collective::make_group_of_one();
  BufferSync buffers(*group, {{"mean", torch::zeros({1})}}, 2);
  EXPECT_THROW(buffers.end_shard(1), InvalidInput);
  EXPECT_THROW(buffers.finish(soon()), InvalidInput);
  buffers.begin_shard();
  EXPECT_THROW(buffers.begin_shard(), InvalidInput);
}

}  // namespace
}  // namespace cohort::parallel
