#include "cohort/train/data/distributed_sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::vector<std::size_t> drain(DistributedSampler& sampler, std::size_t batch_size = 3) {
  std::vector<std::size_t> result;
  while (const auto batch = sampler.next(batch_size))
    result.insert(result.end(), batch->begin(), batch->end());
  return result;
}

TEST(DistributedSampler, EachSampleOnceOverAllRanksByDefault) {
  for (const std::size_t n : {0, 1, 7, 24, 100})
    for (const std::int64_t size : {1, 2, 3, 8}) {
      std::vector<int> seen(n);
      for (std::int64_t rank = 0; rank < size; ++rank) {
        DistributedSampler sampler(n, {.rank = rank, .size = size, .seed = 3});
        const auto mine = drain(sampler);
        EXPECT_EQ(mine.size(), sampler.local_size());
        for (const std::size_t index : mine) ++seen[index];
      }
      EXPECT_THAT(seen, ::testing::Each(1));
    }
}

TEST(DistributedSampler, PaddedAndDroppedRanksHaveTheSameCount) {
  for (const bool pad : {true, false}) {
    std::vector<int> seen(10);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      DistributedSampler sampler(10, {.rank = rank, .size = 4, .pad = pad, .drop_last = !pad});
      const auto mine = drain(sampler);
      EXPECT_EQ(mine.size(), pad ? 3u : 2u);
      for (const std::size_t index : mine) ++seen[index];
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), pad ? 0 : 2);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 2), pad ? 2 : 0);
  }
}

TEST(DistributedSampler, OrderFollowsPyTorchsWithoutShuffle) {
  // torch.utils.data.DistributedSampler(range(7), 3, rank, shuffle=False) gives these.
  const std::vector<std::vector<std::size_t>> expected{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}};
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(7, {.rank = rank, .size = 3, .shuffle = false, .pad = true});
    EXPECT_EQ(drain(sampler), expected[static_cast<std::size_t>(rank)]);
  }
  // Fewer samples than ranks: repeated as often as needed.
  DistributedSampler sampler(2, {.rank = 4, .size = 5, .shuffle = false, .pad = true});
  EXPECT_EQ(drain(sampler), std::vector<std::size_t>{0});
}

class CountingPairs : public torch::data::datasets::Dataset<CountingPairs> {
 public:
  torch::data::Example<> get(size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {torch::tensor(value, torch::kInt64), torch::tensor(value, torch::kInt64)};
  }
  torch::optional<size_t> size() const override { return 25; }
};

TEST(DistributedSampler, SetEpochReachesTheCopyInADataLoader) {
  DistributedSampler sampler(25, {.rank = 1, .size = 2, .seed = 5});
  auto loader = torch::data::make_data_loader(
      CountingPairs().map(torch::data::transforms::Stack<>()), sampler, /*batch_size=*/4);
  std::vector<std::vector<std::int64_t>> epochs;
  for (const std::int64_t epoch : {0, 1, 0}) {
    sampler.set_epoch(epoch);
    auto& order = epochs.emplace_back();
    for (auto& batch : *loader)
      for (std::int64_t i = 0; i < batch.target.size(0); ++i)
        order.push_back(batch.target[i].item<std::int64_t>());
    EXPECT_EQ(order.size(), 12u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
}

TEST(DistributedSampler, GoesOnWhereItWasSaved) {
  DistributedSampler sampler(25, {.rank = 0, .size = 2});
  sampler.set_epoch(4);
  sampler.reset();
  sampler.next(5);
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  sampler.save(out);
  out.save_to(stream);
  DistributedSampler restored(25, {.rank = 0, .size = 2});
  torch::serialize::InputArchive in;
  in.load_from(stream);
  restored.load(in);
  EXPECT_EQ(restored.epoch(), 4);
  EXPECT_EQ(drain(restored), drain(sampler));
}

TEST(DistributedSampler, RefusesRanksThatCannotBe) {
  EXPECT_THROW(DistributedSampler(5, {.rank = 2, .size = 2}), InvalidInput);
  EXPECT_THROW(DistributedSampler(5, {.rank = -1, .size = 2}), InvalidInput);
  EXPECT_THROW(DistributedSampler(5, {.pad = true, .drop_last = true}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
