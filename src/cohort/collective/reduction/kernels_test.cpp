#include "cohort/collective/reduction/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cohort/collective/reduction/half.h"
#include "cohort/collective/reduction/tree.h"

namespace cohort::collective {
namespace {

std::vector<InstructionSet> available() {
  std::vector<InstructionSet> sets{InstructionSet::plain};
  if (best_instruction_set() != InstructionSet::plain) sets.push_back(InstructionSet::avx2);
  if (best_instruction_set() == InstructionSet::avx512) sets.push_back(InstructionSet::avx512);
  return sets;
}

// Any bits at all: NaNs, infinities and subnormals are among them.
std::vector<std::byte> random_bytes(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

TEST(Kernels, AllInstructionSetsGiveTheSameBits) {
  for (int type = 0; type < 9; ++type)
    for (int op = 0; op < 5; ++op) {
      const auto dtype = static_cast<DataType>(type);
      const auto operation = static_cast<ReduceOp>(op);
      for (const std::size_t n : {1ul, 15ul, 16ul, 33ul, 1000ul}) {
        const auto x = random_bytes(n * size_of(dtype), 1);
        const auto y = random_bytes(n * size_of(dtype), 2);
        std::vector<std::vector<std::byte>> results;
        for (const InstructionSet set : available()) {
          const Kernels& k = kernels(dtype, operation, set);
          std::vector<std::byte> acc(n * k.accumulator_bytes), other(n * k.accumulator_bytes);
          std::vector<std::byte> out(n * size_of(dtype)), out1(out), out2(out);
          k.pair(acc.data(), x.data(), y.data(), n);
          k.load(other.data(), x.data(), n);
          k.join(acc.data(), other.data(), n);
          k.join_leaf(acc.data(), y.data(), n);
          k.scale(acc.data(), 0.75, n);
          k.divide(acc.data(), 3, n);
          k.store(out.data(), acc.data(), n);
          k.pair_to(out1.data(), out2.data(), x.data(), y.data(), n);
          EXPECT_EQ(out1, out2);
          out.insert(out.end(), out1.begin(), out1.end());
          results.push_back(std::move(out));
        }
        for (const auto& result : results)
          EXPECT_TRUE(result == results[0]) << to_string(dtype) << ' ' << to_string(operation);
      }
    }
}

TEST(Kernels, EveryHalfSurvivesTheWayThroughF32) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float f16 = from_f16(half), bf16 = from_bf16(half);
    if (f16 == f16) {
      EXPECT_EQ(to_f16(f16), half);
    } else {
      EXPECT_NE(from_f16(to_f16(f16)), from_f16(to_f16(f16)));
    }
    if (bf16 == bf16) {
      EXPECT_EQ(to_bf16(bf16), half);
    }
  }
}

TEST(Kernels, HalvesRoundToNearestEven) {
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f), 0x3c00);      // half-way: to even
  EXPECT_EQ(to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);  // half-way: to even
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);             // the last finite one
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);             // infinity
  EXPECT_EQ(to_f16(0x1p-25f), 0);                  // half of the smallest: to even
  EXPECT_EQ(to_f16(0x1.8p-25f), 1);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

TEST(Kernels, CopyCopiesAtEveryAlignment) {
  const auto source = random_bytes(3000, 3);
  for (const std::size_t from : {0ul, 1ul, 63ul})
    for (const std::size_t to : {0ul, 5ul, 64ul})
      for (const std::size_t bytes : {0ul, 1ul, 511ul, 512ul, 600ul, 2048ul, 2900ul}) {
        std::vector<std::byte> target(3100, std::byte{7});
        for (const auto copy : {copy_bytes, copy_around_cache}) {
          std::fill(target.begin(), target.end(), std::byte{7});
          copy(target.data() + to, source.data() + from, bytes);
          EXPECT_EQ(std::memcmp(target.data() + to, source.data() + from, bytes), 0);
          EXPECT_EQ(target[to + bytes], std::byte{7});
        }
      }
}

TEST(Tree, SplitsAtTheLargestPowerOfTwo) {
  EXPECT_EQ(left_leaves(2), 1);
  EXPECT_EQ(left_leaves(3), 2);
  EXPECT_EQ(left_leaves(5), 4);
  EXPECT_EQ(left_leaves(8), 4);
}

TEST(Tree, AlignedRunsAreOneSubtree) {
  const std::vector<int> aligned{4, 5, 6, 7}, crossing{3, 4, 5}, tail{4, 5};
  EXPECT_EQ(maximal_subtrees(8, aligned), (std::vector<Subtree>{{4, 4}}));
  EXPECT_EQ(maximal_subtrees(8, crossing), (std::vector<Subtree>{{3, 1}, {4, 2}}));
  EXPECT_EQ(maximal_subtrees(6, tail), (std::vector<Subtree>{{4, 2}}));
}

}  // namespace
}  // namespace cohort::collective
