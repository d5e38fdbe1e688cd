#include "cohort/ps/server/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cohort/collective/reduction/shards.h"

namespace cohort::ps {
namespace {

constexpr std::size_t kElements = 1003;

// Each shard's gradient of numbers whose sum depends on the order.
std::vector<std::vector<float>> shard_gradients(int shards) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> magnitude(-20, 20), sign(-1, 1);
  std::vector<std::vector<float>> gradients(static_cast<std::size_t>(shards));
  for (auto& gradient : gradients)
    for (std::size_t i = 0; i < kElements; ++i)
      gradient.push_back(sign(random) * std::exp2(magnitude(random)));
  return gradients;
}

// The tree over shards first, ..., first + count, one addition at a time.
float tree_sum(const std::vector<std::vector<float>>& shards, int first, int count, std::size_t i) {
  if (count == 1) return shards[static_cast<std::size_t>(first)][i];
  const int left = collective::left_leaves(count);
  return tree_sum(shards, first, left, i) + tree_sum(shards, first + left, count - left, i);
}

struct Pushed {
  std::vector<float> values;
  Contribution contribution;
};

Pushed push_of(const std::vector<std::vector<float>>& shards, int worker, int workers,
               double weight) {
  const int count = static_cast<int>(shards.size());
  Pushed pushed;
  const collective::ShardPlan plan(count, collective::shards_of(worker, workers, count));
  for (const auto& node : plan.nodes())
    for (std::size_t i = 0; i < kElements; ++i)
      pushed.values.push_back(tree_sum(shards, node.first, node.count, i));
  pushed.contribution.worker = worker;
  pushed.contribution.weight = weight;
  return pushed;
}

std::vector<float> combined(Combiner& combiner, std::vector<Pushed>& pushed) {
  std::vector<const Contribution*> used;
  for (Pushed& one : pushed) {
    one.contribution.bytes = std::as_bytes(std::span(one.values));
    used.push_back(&one.contribution);
  }
  const auto bytes = combiner.combine(used, ElementType::f32, kElements);
  const auto* first = reinterpret_cast<const float*>(bytes.data());
  return {first, first + kElements};
}

TEST(Combiner, AllWorkersGiveTheTreeOverShardsBitForBit) {
  for (int shards : {1, 2, 3, 5, 8, 13}) {
    const auto gradients = shard_gradients(shards);
    for (int workers = 1; workers <= shards; ++workers) {
      Combiner combiner(workers, shards);
      std::vector<Pushed> pushed;
      for (int worker = 0; worker < workers; ++worker) {
        pushed.push_back(push_of(gradients, worker, workers, 1.0 / workers));
        EXPECT_EQ(pushed.back().values.size(),
                  kElements * static_cast<std::size_t>(combiner.nodes(worker)));
      }
      const auto sum = combined(combiner, pushed);
      for (std::size_t i = 0; i < kElements; ++i)
        ASSERT_EQ(sum[i], tree_sum(gradients, 0, shards, i)) << workers << " of " << shards;
    }
  }
}

TEST(Combiner, SomeWorkersAreAveragedByTheirWeights) {
  const auto gradients = shard_gradients(7);
  Combiner combiner(3, 7);  // worker/0 has shards 0, 1, 2: two nodes
  ASSERT_EQ(combiner.nodes(0), 2);
  std::vector<Pushed> pushed{push_of(gradients, 0, 3, 0.5), push_of(gradients, 2, 3, 0.25)};
  const auto average = combined(combiner, pushed);
  for (std::size_t i = 0; i < kElements; ++i) {
    const float first = (gradients[0][i] + gradients[1][i]) + gradients[2][i];
    const float second = gradients[5][i] + gradients[6][i];
    ASSERT_FLOAT_EQ(average[i], static_cast<float>((first + second) * (1 / 0.75)));
  }
}

TEST(Combiner, OneContributionThatNeedsNothingIsNotCopied) {
  const auto gradients = shard_gradients(2);
  Combiner combiner(2, 2);
  std::vector<Pushed> pushed{push_of(gradients, 1, 2, 1)};
  pushed[0].contribution.bytes = std::as_bytes(std::span(pushed[0].values));
  const Contribution* used = &pushed[0].contribution;
  EXPECT_EQ(combiner.combine({&used, 1}, ElementType::f32, kElements).data(),
            pushed[0].contribution.bytes.data());
}

TEST(FirstNotFinite, FindsTheFirst) {
  std::vector<double> values(10, 1);
  EXPECT_EQ(first_not_finite(std::as_bytes(std::span(values)), ElementType::f64), 10u);
  values[6] = std::nan("");
  values[8] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(first_not_finite(std::as_bytes(std::span(values)), ElementType::f64), 6u);
}

}  // namespace
}  // namespace cohort::ps
