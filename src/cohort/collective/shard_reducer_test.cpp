#include "cohort/collective/shard_reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/collective/form.h"
#include "cohort/collective/reduction/half.h"

namespace cohort::collective {
namespace {

constexpr std::size_t kElements = 1003;

// Shard `shard`'s values: of very different sizes, so that another order gives other bits.
std::vector<std::byte> values_of(int shard, DataType dtype) {
  std::mt19937_64 random(static_cast<std::uint64_t>(shard) + 1);
  std::vector<std::byte> values(kElements * size_of(dtype));
  for (std::size_t i = 0; i < kElements; ++i) {
    const double value = std::ldexp(static_cast<double>(random() % 2000) - 1000.0,
                                    static_cast<int>(random() % 20) - 16);
    std::byte* at = values.data() + i * size_of(dtype);
    if (dtype == DataType::f64) std::memcpy(at, &value, 8);
    const auto single = static_cast<float>(value);
    if (dtype == DataType::f32) std::memcpy(at, &single, 4);
    const std::uint16_t half = dtype == DataType::bf16 ? to_bf16(single) : to_f16(single);
    if (size_of(dtype) == 2) std::memcpy(at, &half, 2);
  }
  return values;
}

// reduce_scatter() leaves the rank its part of what all_reduce() has left.
void expect_slice_of(const std::vector<std::byte>& sum, ShardReducer& reducer, Group& group,
                     const std::vector<std::byte*>& partials, DataType dtype, double scale) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto self = static_cast<std::size_t>(group.rank());
  const std::size_t each = kElements / ranks;
  std::vector<std::size_t> counts(ranks, each);
  counts.back() = kElements - each * (ranks - 1);
  std::vector<std::byte> own(counts[self] * size_of(dtype));
  reducer.reduce_scatter(partials, own.data(), counts, dtype, scale);
  EXPECT_EQ(std::memcmp(own.data(), sum.data() + each * self * size_of(dtype), own.size()), 0);
}

// What every rank gets, by the plan: partials by TreeReducer, then all_reduce.
std::vector<std::byte> sum_over(Group& group, int shards, DataType dtype, double scale,
                                std::vector<ShardRange> runs = {}) {
  ShardReducer reducer(group, shards, runs);
  const int first =
      runs_of(group.size(), shards, runs)[static_cast<std::size_t>(group.rank())].first;
  std::vector<std::vector<std::byte>> stack;
  std::vector<std::vector<std::byte>> finals(reducer.plan().nodes().size());
  const Reduction reduction{dtype, ReduceOp::sum, shards};
  for (std::size_t k = 0; k < reducer.plan().steps().size(); ++k) {
    const ShardPlan::Step& step = reducer.plan().steps()[k];
    std::vector<std::byte> value = values_of(first + static_cast<int>(k), dtype);
    if (step.inputs.size() > 1) {
      const TreeReducer tree(reduction, step.node, step.inputs, true);
      std::vector<const std::byte*> inputs;
      for (std::size_t i = stack.size() - (step.inputs.size() - 1); i < stack.size(); ++i)
        inputs.push_back(stack[i].data());
      inputs.push_back(value.data());
      std::vector<std::byte> combined(kElements * tree.accumulator_bytes());
      std::byte* out = combined.data();
      tree.run(inputs, {&out, 1}, kElements);
      stack.resize(stack.size() - (step.inputs.size() - 1));
      value = std::move(combined);
    }
    (step.final < 0 ? stack.emplace_back() : finals[static_cast<std::size_t>(step.final)]) =
        std::move(value);
  }
  EXPECT_TRUE(stack.empty());
  std::vector<std::byte*> partials;
  for (auto& partial : finals) partials.push_back(partial.data());
  std::vector<std::byte> result(kElements * size_of(dtype));
  reducer.all_reduce(partials, result.data(), kElements, dtype, scale);
  expect_slice_of(result, reducer, group, partials, dtype, scale);
  return result;
}

class ShardReducerTest : public ::testing::TestWithParam<DataType> {};

TEST_P(ShardReducerTest, TheSumHasTheSameBitsForAnyNumberOfRanks) {
  for (int shards = 1; shards <= 13; ++shards) {
    const double scale = shards % 2 == 0 ? 1.0 : 1.0 / shards;
    const auto alone = make_group_of_one();
    const std::vector<std::byte> expected = sum_over(*alone, shards, GetParam(), scale);
    for (int ranks = 2; ranks <= std::min(shards, 6); ++ranks) {
      auto groups = make_inproc_groups(ranks, std::chrono::seconds(20));
      std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(ranks));
      std::vector<std::thread> threads;
      for (std::size_t rank = 0; rank < results.size(); ++rank)
        threads.emplace_back(
            [&, rank] { results[rank] = sum_over(*groups[rank], shards, GetParam(), scale); });
      for (std::thread& thread : threads) thread.join();
      for (const auto& result : results)
        EXPECT_TRUE(result == expected) << shards << " shards on " << ranks << " ranks";
    }
  }
}

TEST_P(ShardReducerTest, ARankWithoutShardsChangesNoBitAndGetsTheSum) {
  for (const int shards : {1, 2, 3, 4, 8, 13}) {
    const auto alone = make_group_of_one();
    const std::vector<std::byte> expected = sum_over(*alone, shards, GetParam(), 0.5);
    for (int ranks = 2; ranks <= std::min(shards + 1, 4); ++ranks)
      for (int idle = 0; idle < ranks; ++idle) {
        std::vector<ShardRange> runs;
        for (int rank = 0, owner = 0; rank < ranks; ++rank)
          runs.push_back(rank == idle ? ShardRange{} : shards_of(owner++, ranks - 1, shards));
        auto groups = make_inproc_groups(ranks, std::chrono::seconds(20));
        std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(ranks));
        std::vector<std::thread> threads;
        for (std::size_t rank = 0; rank < results.size(); ++rank)
          threads.emplace_back([&, rank] {
            results[rank] = sum_over(*groups[rank], shards, GetParam(), 0.5, runs);
          });
        for (std::thread& thread : threads) thread.join();
        for (const auto& result : results)
          EXPECT_TRUE(result == expected)
              << shards << " shards on " << ranks << " ranks without " << idle;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ShardReducerTest,
                         ::testing::Values(DataType::f32, DataType::f64, DataType::f16,
                                           DataType::bf16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(ShardReducer, TheOrderOfAdditionIsTheTreeOverShards) {
  // 1 is lost when it is added to 2^24, not when it meets its neighbour 1 first.
  const auto group = make_group_of_one();
  ShardReducer reducer(*group, 4);
  EXPECT_EQ(reducer.plan().nodes(), (std::vector<Subtree>{{0, 4}}));
  const float values[] = {16777216.0f, 0.0f, 1.0f, 1.0f};
  const TreeReducer tree({DataType::f32, ReduceOp::sum, 4});
  std::vector<const std::byte*> inputs;
  for (const float& value : values) inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  float sum = 0;
  auto* out = reinterpret_cast<std::byte*>(&sum);
  tree.run(inputs, {&out, 1}, 1);
  reducer.all_reduce({&out, 1}, out, 1, DataType::f32);
  EXPECT_EQ(sum, 16777218.0f);
}

TEST(ShardReducer, WindowsJoinWithoutASeam) {
  // Longer than a window, three ranks with four shards: no rank's run fits the tree of ranks.
  constexpr std::size_t elements = (1 << 20) + 77;
  auto groups = make_inproc_groups(3, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&group] {
      ShardReducer reducer(*group, 4);
      std::vector<Buffer> memory;
      std::vector<std::byte*> partials;
      for (const Subtree& node : reducer.plan().nodes()) {
        memory.push_back(group->allocate(elements * sizeof(float)));
        partials.push_back(memory.back().data());
        auto values = memory.back().as<float>();
        for (std::size_t i = 0; i < elements; ++i)
          values[i] = static_cast<float>(node.count) * static_cast<float>(i % 1000);
      }
      reducer.all_reduce(partials, partials.back(), elements, DataType::f32);
      const auto result = memory.back().as<float>();
      for (std::size_t i = 0; i < elements; ++i)
        ASSERT_EQ(result[i], 4.0f * static_cast<float>(i % 1000)) << i;
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Group, AJobOfSeveralCallsKeepsItsPlaceAmongAsynchronousCalls) {
  auto groups = make_inproc_groups(2, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&group] {
      float first = 1, second = 2, third = 3;
      Work a = group->all_reduce_async(&first, &first, 1, DataType::f32);
      Work b = group->run_async([&](Group& same) {
        same.all_reduce(std::span(&second, 1));
        same.broadcast(std::span(&second, 1), 1);
      });
      group->all_reduce(std::span(&third, 1));  // waits for its turn behind both
      EXPECT_TRUE(a.poll());
      EXPECT_TRUE(b.poll());
      EXPECT_EQ(first, 2);
      EXPECT_EQ(second, 4);
      EXPECT_EQ(third, 6);
      Work failing = group->run_async([](Group&) { throw InvalidInput("the job's own reason"); });
      EXPECT_THROW(failing.wait(), InvalidInput);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cohort::collective
