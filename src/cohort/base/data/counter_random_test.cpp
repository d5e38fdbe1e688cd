#include "cohort/base/data/counter_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cohort/base/error.h"

namespace cohort {
namespace {

using Block = std::array<std::uint32_t, 4>;

TEST(CounterRandom, MixerHasThePublishedValues) {  // Random123's known-answer tests
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Checkpoints and published fingerprints depend on these: a change here breaks every resume.
TEST(CounterRandom, DrawsStayWhatTheyWere) {
  EXPECT_EQ(permutation(10, 42, 3), (std::vector<std::int64_t>{9, 2, 0, 6, 3, 1, 5, 8, 7, 4}));
  EXPECT_EQ(shard_seed(42, 1, 2, 3), 5073844452954075232u);
}

TEST(CounterRandom, EveryCounterMatters) {
  std::set<std::uint64_t> seen;
  std::size_t drawn = 0;
  for (std::uint64_t seed : {0, 1, 2})
    for (auto stream : {RandomStream::kShuffle, RandomStream::kDropout})
      for (std::uint64_t a : {0, 1, 2})
        for (std::uint64_t b : {0, 1, 2}) {
          CounterRandom random(seed, stream, a, b);
          for (int i = 0; i < 4; ++i, ++drawn) seen.insert(random.next());
        }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(CounterRandom, SeekingFindsTheSameDraws) {
  CounterRandom forward(7, RandomStream::kUser, 1, 2);
  std::vector<std::uint64_t> draws;
  for (int i = 0; i < 9; ++i) draws.push_back(forward.next());
  CounterRandom random(7, RandomStream::kUser, 1, 2);
  for (std::size_t position : {8u, 0u, 3u, 4u, 3u, 7u, 5u}) {
    random.seek(position);
    EXPECT_EQ(random.next(), draws[position]) << position;
  }
}

TEST(CounterRandom, BelowIsUniform) {
  CounterRandom random(1, RandomStream::kUser);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(7)];
  for (int count : counts) EXPECT_NEAR(count, kDraws / 7, 500);  // 5 sigma = 463
  // Without rejection the lower half of this range would be drawn twice as often as the upper.
  const std::uint64_t bound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  int lower = 0;
  for (int i = 0; i < kDraws; ++i) lower += random.below(bound) < bound / 2 ? 1 : 0;
  EXPECT_NEAR(lower, kDraws / 2, 700);
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_THROW(random.below(0), Error);
}

TEST(CounterRandom, UniformStaysBelowOneAndFillsTheRange) {
  CounterRandom random(5, RandomStream::kUser);
  double sum = 0, square = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double x = random.uniform();
    ASSERT_TRUE(x >= 0 && x < 1);
    const float f = random.uniform_float();
    ASSERT_TRUE(f >= 0 && f < 1);
    sum += x;
    square += x * f;
  }
  EXPECT_NEAR(sum / 20'000, 0.5, 0.01);
  EXPECT_NEAR(square / 20'000, 0.25, 0.01);  // neighbouring draws are independent
}

TEST(Permutation, HoldsEveryNumberOnceAndDiffersByEpochAndSeed) {
  auto order = permutation(1000, 1, 0);
  EXPECT_NE(order, permutation(1000, 1, 1));
  EXPECT_NE(order, permutation(1000, 2, 0));
  EXPECT_EQ(order, permutation(1000, 1, 0));
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  EXPECT_TRUE(permutation(0, 1, 0).empty());
  EXPECT_EQ(permutation(1, 1, 0), std::vector<std::int64_t>{0});
  EXPECT_THROW(permutation(-1, 1, 0), InvalidInput);
}

TEST(Permutation, PutsEachNumberAnywhereWithTheSameChance) {
  std::array<std::array<int, 4>, 4> counts{};
  constexpr int kEpochs = 8000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = permutation(4, 9, epoch);
    for (std::size_t i = 0; i < 4; ++i) ++counts[i][static_cast<std::size_t>(order[i])];
  }
  for (const auto& row : counts)
    for (int count : row) EXPECT_NEAR(count, kEpochs / 4, 200);  // 5 sigma = 194
}

TEST(ShardSeed, DiffersForEveryStepShardAndEpoch) {
  std::set<std::uint64_t> seen;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (int step = 0; step < 20; ++step)
      for (int shard = 0; shard < 8; ++shard) seen.insert(shard_seed(3, epoch, step, shard));
  EXPECT_EQ(seen.size(), 5u * 20 * 8);
}

}  // namespace
}  // namespace cohort
