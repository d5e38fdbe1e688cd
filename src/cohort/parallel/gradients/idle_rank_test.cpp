// A rank without shards: it adds nothing, and ends a step with what the others have.
#include <gmock/gmock.h>

#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/gradients/buffer_sync.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/strategies/replicas_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using collective::ShardRange;

constexpr int kShards = 3;
constexpr int kRanks = 3;

std::vector<ShardRange> runs_without(int idle) {
  std::vector<ShardRange> runs{{0, 2}, {2, 1}};
  runs.insert(runs.begin() + idle, ShardRange{});
  return runs;
}

// Values of very different sizes, so that another order of addition gives other bits.
torch::Tensor factor_of(int shard, const torch::Tensor& like) {
  const auto at = torch::arange(like.numel(), torch::kDouble).view(like.sizes());
  return (torch::sin(at * (shard + 1)) * std::pow(1000.0, shard)).to(like.scalar_type());
}

TEST(IdleRank, GetsTheSameSumsInEveryTypeAndSize) {
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf})
    for (int idle = 0; idle < kRanks; ++idle)
      run_replicas(kRanks, [&](Group& group) {
        NamedTensors parameters;
        for (const int rows : {3, 700, 40})  // the second is large enough to be adopted
          parameters.emplace_back(std::to_string(rows),
                                  torch::ones({rows, 700}, dtype).requires_grad_());
        GradientSync sync(group, parameters, {.shards = kShards, .runs = runs_without(idle)});
        EXPECT_EQ(sync.shard_count() == 0, group.rank() == idle);
        sync.record_events(true);
        for (int step = 0; step < 3; ++step) {
          for (int i = 0; i < sync.shard_count(); ++i) {
            const int shard = sync.first_shard() + i;
            sync.begin_shard(shard);
            torch::Tensor loss = torch::zeros({}, dtype);
            for (auto& [name, one] : parameters) loss = loss + (one * factor_of(shard, one)).sum();
            loss.backward();
            sync.end_shard();
          }
          sync.finish(soon());
          for (auto& [name, one] : parameters) {
            std::vector<torch::Tensor> shards;
            for (int shard = 0; shard < kShards; ++shard)
              shards.push_back(
                  factor_of(shard, one).to(dtype == torch::kHalf ? torch::kFloat : dtype));
            ASSERT_TRUE(one.grad().defined());
            EXPECT_TRUE(same_bits(one.grad(), tree_sum(shards, 0, kShards).to(dtype)))
                << name << " on rank " << group.rank() << " without " << idle;
          }
          EXPECT_EQ(sync.take_events().size(), sync.layouts().size());
        }
      });
}

TEST(IdleRank, KnowsNothingOfParametersThatOthersDoNotUse) {
  for (int idle = 0; idle < kRanks; ++idle)
    run_replicas(kRanks, [&](Group& group) {
      torch::Tensor used = torch::ones({5}).requires_grad_();
      torch::Tensor never = torch::ones({4}).requires_grad_();
      GradientSync sync(group, {{"used", used}, {"never", never}},
                        {.shards = kShards, .runs = runs_without(idle), .allow_unused = true});
      for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < sync.shard_count(); ++i) {
          sync.begin_shard(sync.first_shard() + i);
          (used * 2).sum().backward();
          sync.end_shard();
        }
        sync.finish(soon());
        EXPECT_TRUE(torch::equal(used.grad(), torch::full({5}, 6.0f)));
        EXPECT_TRUE(torch::equal(never.grad(), torch::zeros({4})));
      }
    });
}

TEST(IdleRank, ContributesZeroToCompressedSumsAndToAReducersOwn) {
  for (const bool compressed : {true, false})
    for (int idle = 0; idle < kRanks; ++idle)
      run_replicas(kRanks, [&](Group& group) {
        torch::Tensor a = torch::ones({64}).requires_grad_();
        GradientSyncOptions options{.shards = kShards, .runs = runs_without(idle)};
        if (compressed)
          options.compression = Compression::bf16;
        else
          options.reducer = [](Group& same, torch::Tensor v) {
            same.all_reduce(v.data_ptr(), v.data_ptr(), static_cast<std::size_t>(v.numel()),
                            collective::DataType::f32);
          };
        GradientSync sync(group, {{"a", a}}, options);
        for (int step = 0; step < 3; ++step) {  // the second would see the first one's sum
          for (int i = 0; i < sync.shard_count(); ++i) {
            sync.begin_shard(sync.first_shard() + i);
            (a * 2).sum().backward();
            sync.end_shard();
          }
          sync.finish(soon());
          EXPECT_TRUE(torch::equal(a.grad(), torch::full({64}, 6.0f)));
        }
      });
}

TEST(IdleRank, GetsTheOthersBuffersAndDisturbsNone) {
  for (int idle = 0; idle < kRanks; ++idle)
    run_replicas(kRanks, [&](Group& group) {
      const bool is_idle = group.rank() == idle;
      // What the idle rank has before is not what the others have.
      torch::Tensor mean = torch::full({3}, is_idle ? 1e9 : 0.0);
      torch::Tensor count = torch::full({1}, is_idle ? 1000 : -5, torch::kLong);
      torch::Tensor flag = torch::full({2}, !is_idle, torch::kBool);
      const auto runs = runs_without(idle);
      BufferSync buffers(group, {{"mean", mean}, {"count", count}, {"flag", flag}}, kShards, runs);
      const ShardRange own = runs[static_cast<std::size_t>(group.rank())];
      for (int step = 0; step < 2; ++step) {
        for (int shard = own.first; shard < own.first + own.count; ++shard) {
          buffers.begin_shard();
          mean.add_(shard);
          count.add_(1);
          flag.fill_(shard == 0);
          buffers.end_shard(1.0 / 4);  // and a quarter that no shard has: the mean shrinks
        }
        buffers.finish(soon());
        const double expected = step == 0 ? 0.75 : 0.75 * 0.75 + 0.75;
        EXPECT_TRUE(torch::equal(mean, torch::full({3}, expected))) << mean;
        EXPECT_EQ(count.item<std::int64_t>(), step - 4);
        EXPECT_TRUE(flag.all().item<bool>());
      }
    });
}

TEST(IdleRank, HasNoShardToBegin) {
  const auto errors = try_replicas(2, [](Group& group) {
    torch::Tensor a = torch::ones({4}).requires_grad_();
    GradientSync sync(group, {{"a", a}}, {.shards = 1, .runs = {{0, 1}, {}}});
    if (group.rank() == 1) sync.begin_shard(0);
  });
  EXPECT_THAT(what_of(errors[1]), ::testing::HasSubstr("rank 1 owns 0 shards"));
}

}  // namespace
}  // namespace cohort::parallel
