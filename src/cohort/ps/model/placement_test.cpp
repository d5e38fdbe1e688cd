#include "cohort/ps/model/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cohort::ps {
namespace {

ModelSpec random_spec(std::mt19937_64& random) {
  ModelSpec spec;
  spec.groups.resize(1);
  const std::size_t blocks = 1 + random() % 30;
  for (std::size_t b = 0; b < blocks; ++b) {
    Block block;
    block.type = random() % 4 == 0 ? ElementType::f64 : ElementType::f32;
    block.elements = 1 + random() % (std::uint64_t{1} << (1 + random() % 22));
    block.parts.push_back({"p" + std::to_string(b), 0, block.elements, 0});
    spec.blocks.push_back(std::move(block));
  }
  return spec;
}

std::uint64_t bytes_of(const ModelSpec& spec, const Slice& slice) {
  return slice.elements * size_of(spec.blocks[static_cast<std::size_t>(slice.block)].type);
}

TEST(PlacementTest, CoversEveryElementOnceInOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const ModelSpec spec = random_spec(random);
    const int servers = 1 + static_cast<int>(random() % 20);
    std::size_t block = 0;
    std::uint64_t next = 0;
    for (const Slice& slice : place(spec, servers)) {
      if (next == spec.blocks[block].elements) {
        ++block;
        next = 0;
      }
      ASSERT_EQ(slice.block, static_cast<int>(block));
      ASSERT_EQ(slice.offset, next);
      ASSERT_GT(slice.elements, 0u);
      ASSERT_GE(slice.server, 0);
      ASSERT_LT(slice.server, servers);
      next += slice.elements;
    }
    ASSERT_EQ(block + 1, spec.blocks.size());
    ASSERT_EQ(next, spec.blocks.back().elements);
  }
}

TEST(PlacementTest, CutsAtLinesAndKeepsSlicesSmall) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const ModelSpec spec = random_spec(random);
    for (const Slice& slice : place(spec, 1 + static_cast<int>(random() % 20))) {
      const Block& block = spec.blocks[static_cast<std::size_t>(slice.block)];
      ASSERT_LE(bytes_of(spec, slice), kMaxSliceBytes);
      ASSERT_EQ(slice.offset * size_of(block.type) % 64, 0u);
    }
  }
}

TEST(PlacementTest, ServersDifferByOneSliceAtMost) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const ModelSpec spec = random_spec(random);
    const int servers = 2 + static_cast<int>(random() % 19);
    const std::vector<Slice> slices = place(spec, servers);
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(servers), 0);
    for (const Slice& slice : slices)
      bytes[static_cast<std::size_t>(slice.server)] += bytes_of(spec, slice);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    ASSERT_LE(*most - *least, kMaxSliceBytes) << servers << " servers";
  }
}

TEST(PlacementTest, IsTheSameEverywhere) {
  std::mt19937_64 random(4);
  const ModelSpec spec = random_spec(random);
  EXPECT_EQ(place(spec, 3), place(spec, 3));
}

TEST(PlacementTest, EveryServerWorksOnALargeBlockAndOneOnASmallOne) {
  ModelSpec spec;
  spec.groups.resize(1);
  spec.blocks = {{ElementType::f32, 4 << 20, {}}, {ElementType::f32, 1000, {}}};
  std::vector<int> pieces(4, 0);
  int small = 0;
  for (const Slice& slice : place(spec, 4))
    slice.block == 0 ? ++pieces[static_cast<std::size_t>(slice.server)] : ++small;
  EXPECT_EQ(pieces, (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(small, 1);
}

TEST(PlacementTest, ASliceHasTheSlotsOfItsMostDemandingPart) {
  ModelSpec spec;
  spec.groups = {{.kind = UpdateRule::Kind::sgd}, {.kind = UpdateRule::Kind::adam}};
  spec.blocks = {{ElementType::f32, 64, {{"a", 0, 32, 0}, {"b", 32, 32, 1}}}};
  EXPECT_EQ(slot_count(spec, {0, 0, 0, 32}), 0);
  EXPECT_EQ(slot_count(spec, {0, 0, 0, 64}), 2);
}

TEST(PlacementTest, KeysSpreadEvenly) {
  std::vector<int> keys(3, 0);
  for (std::uint64_t key = 0; key < 30000; ++key)
    ++keys[static_cast<std::size_t>(server_of_key(key, 3))];
  for (const int count : keys) EXPECT_NEAR(count, 10000, 300);
  EXPECT_EQ(server_of_key(~std::uint64_t{0}, 1), 0);
}

TEST(PlacementTest, DescriptionNamesServersSharesPartsAndTables) {
  ModelSpec spec;
  spec.groups.resize(1);
  spec.blocks = {{ElementType::f32, 1 << 18, {{"fc1.weight", 0, 1 << 18, 0}}},
                 {ElementType::f32, 100, {{"fc1.bias", 0, 100, 0}}}};
  spec.tables = {{.name = "users", .dimension = 16, .rows = 0}};
  const std::string text = describe(spec, place(spec, 2), 2);
  EXPECT_THAT(text, ::testing::HasSubstr("ps/0"));
  EXPECT_THAT(text, ::testing::HasSubstr("50.0%"));
  EXPECT_THAT(text, ::testing::HasSubstr("fc1.weight[0..131072)"));
  EXPECT_THAT(text, ::testing::HasSubstr("fc1.weight[131072..262144)"));
  EXPECT_THAT(text, ::testing::HasSubstr("fc1.bias\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("table users: rows of 16 values, made as keys appear, "
                                         "spread by key over ps/0 to ps/1"));
}

}  // namespace
}  // namespace cohort::ps
