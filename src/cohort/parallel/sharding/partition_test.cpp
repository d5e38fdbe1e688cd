#include "cohort/parallel/sharding/partition.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/sharding/mesh.h"
#include "cohort/parallel/sharding/shard.h"

namespace cohort::parallel {
namespace {

TEST(Partition, EveryElementHasOneOwnerAndBordersAreWholeUnits) {
  const std::vector<ParameterSize> sizes{{4096 * 100 + 37, 4}, {10, 4}, {1, 8}, {70000, 2}, {0, 4}};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Partition partition(sizes, ranks);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::size_t next = 0, owners = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Slice slice = partition.slice(i, rank);
        if (slice.count == 0) continue;
        ++owners;
        EXPECT_EQ(slice.from, next);
        EXPECT_EQ(slice.from % Partition::kUnit, 0u);
        next = slice.from + slice.count;
      }
      EXPECT_EQ(next, sizes[i].elements);
      EXPECT_EQ(owners > 1, partition.is_cut(i));
    }
  }
}

TEST(Partition, IsBalanced) {
  std::vector<ParameterSize> sizes;
  for (std::size_t i = 0; i < 40; ++i) {
    sizes.push_back({100'003 + 1'000 * i, 4});
    sizes.push_back({7 + 100 * i, 4});
  }
  std::size_t all = 0;
  for (const auto& size : sizes) all += size.elements;
  for (int ranks = 2; ranks <= 4; ++ranks) {
    const Partition partition(sizes, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::size_t own = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) own += partition.slice(i, rank).count;
      EXPECT_NEAR(static_cast<double>(own), static_cast<double>(all) / ranks,
                  0.02 * static_cast<double>(all) / ranks);
    }
  }
}

TEST(Mesh, LinesAreTheRanksThatDifferInOneDimension) {
  using ::testing::ElementsAre;
  const Mesh mesh({{"data", 2}, {"shard", 3}});
  EXPECT_EQ(mesh.workers(), 6);
  EXPECT_EQ(mesh.size("shard"), 3);
  EXPECT_EQ(mesh.size("pipe"), 1);
  EXPECT_THAT(mesh.line("shard", 4), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.line("data", 4), ElementsAre(1, 4));
  EXPECT_THAT(mesh.line("pipe", 4), ElementsAre(4));
  EXPECT_THAT(Mesh::of_workers(3, Shard::gradients).line("shard", 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(Mesh::of_workers(3, Shard::none).line("shard", 1), ElementsAre(1));
  EXPECT_THAT(message_of<InvalidInput>([] { Mesh({{"data", 0}}); }), ::testing::HasSubstr("data"));
}

TEST(Shard, IsReadFromItsName) {
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters})
    EXPECT_EQ(parse_shard(to_string(shard)), shard);
  EXPECT_THAT(message_of<InvalidInput>([] { parse_shard("zero"); }),
              ::testing::HasSubstr("'zero'"));
}

}  // namespace
}  // namespace cohort::parallel
