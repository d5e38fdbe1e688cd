#include "cohort/train/data/distributed_sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::vector<std::int64_t> drain(DistributedSampler& sampler, std::int64_t batch_size = 3) {
  std::vector<std::int64_t> result;
  while (const auto batch = sampler.next(batch_size))
    result.insert(result.end(), batch->begin(), batch->end());
  return result;
}

TEST(DistributedSampler, EachSampleOnceOverAllRanksByDefault) {
  for (const std::int64_t n : {0, 1, 7, 24, 100})
    for (const std::int64_t size : {1, 2, 3, 8}) {
      std::vector<int> seen(static_cast<std::size_t>(n));
      for (std::int64_t rank = 0; rank < size; ++rank) {
        DistributedSampler sampler(n, {.rank = rank, .size = size, .seed = 3});
        const auto mine = drain(sampler);
        EXPECT_EQ(static_cast<std::int64_t>(mine.size()), sampler.local_size());
        for (const std::int64_t index : mine) ++seen[static_cast<std::size_t>(index)];
      }
      EXPECT_THAT(seen, ::testing::Each(1));
    }
}

// What a step trains on does not depend on the number of ranks, and no rank has a step more.
TEST(DistributedSampler, ABatchIsTheJobsWhateverTheRanks) {
  const auto batches_of = [](std::int64_t size) {
    std::vector<std::vector<std::int64_t>> batches;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      DistributedSampler sampler(22, {.rank = rank, .size = size, .seed = 3});
      std::size_t steps = 0;
      for (; const auto mine = sampler.next(10); ++steps) {
        batches.resize(std::max(batches.size(), steps + 1));
        EXPECT_LE(static_cast<std::int64_t>(mine->size()), (10 + size - 1) / size);
        batches[steps].insert(batches[steps].end(), mine->begin(), mine->end());
      }
      EXPECT_EQ(steps, 3u);  // the last has two samples: of four ranks some have none
    }
    for (auto& batch : batches) std::sort(batch.begin(), batch.end());
    return batches;
  };
  for (const std::int64_t size : {2, 3, 4}) EXPECT_EQ(batches_of(size), batches_of(1)) << size;
}

TEST(DistributedSampler, PaddedAndDroppedRanksHaveTheSameCount) {
  for (const bool pad : {true, false}) {
    std::vector<int> seen(10);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      DistributedSampler sampler(10, {.rank = rank, .size = 4, .pad = pad, .drop_last = !pad});
      const auto mine = drain(sampler);
      EXPECT_EQ(mine.size(), pad ? 3u : 2u);
      for (const std::int64_t index : mine) ++seen[static_cast<std::size_t>(index)];
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), pad ? 0 : 2);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 2), pad ? 2 : 0);
  }
}

TEST(DistributedSampler, OrderFollowsPyTorchsWithoutShuffle) {
  // torch.utils.data.DistributedSampler(range(7), 3, rank, shuffle=False) gives these.
  const std::vector<std::vector<std::int64_t>> expected{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}};
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(7, {.rank = rank, .size = 3, .shuffle = false, .pad = true});
    EXPECT_EQ(drain(sampler), expected[static_cast<std::size_t>(rank)]);
  }
  // Fewer samples than ranks: repeated as often as needed.
  DistributedSampler sampler(2, {.rank = 4, .size = 5, .shuffle = false, .pad = true});
  EXPECT_EQ(drain(sampler), std::vector<std::int64_t>{0});
}

class CountingPairs : public torch::data::datasets::Dataset<CountingPairs> {
 public:
  torch::data::Example<> get(size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {torch::tensor(value, torch::kInt64), torch::tensor(value, torch::kInt64)};
  }
  torch::optional<size_t> size() const override { return 25; }
};

TEST(TorchSampler, SetEpochReachesTheCopyInADataLoader) {
  TorchSampler sampler(DistributedSampler(25, {.rank = 1, .size = 2, .seed = 5}));
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

TEST(TorchSampler, IsSavedAsTorchsSamplersAre) {
  TorchSampler sampler(DistributedSampler(25, {.rank = 0, .size = 2}));
  sampler.set_epoch(4);
  sampler.next(5);
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  sampler.save(out);
  out.save_to(stream);
  TorchSampler restored(DistributedSampler(25, {.rank = 0, .size = 2}));
  torch::serialize::InputArchive in;
  in.load_from(stream);
  restored.load(in);
  EXPECT_EQ(restored.sampler().epoch(), 4);
  EXPECT_EQ(drain(restored.sampler()), drain(sampler.sampler()));
}

TEST(DistributedSampler, GoesOnWhereItWasAlsoWithOtherRanks) {
  DistributedSampler before(25, {.rank = 0, .size = 2});
  before.set_epoch(4);
  before.next(6);
  std::vector<std::int64_t> rest;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    DistributedSampler after(25, {.rank = rank, .size = 3});
    after.set_position(before.position());
    EXPECT_EQ(after.epoch(), 4);
    const auto mine = drain(after);
    rest.insert(rest.end(), mine.begin(), mine.end());
  }
  DistributedSampler whole(25);
  whole.set_epoch(4);
  whole.next(6);
  auto expected = drain(whole);
  std::sort(rest.begin(), rest.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(rest, expected);
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  EXPECT_THROW(DistributedSampler(-1), InvalidInput);
  EXPECT_THROW(DistributedSampler(5, {.rank = 2, .size = 2}), InvalidInput);
  EXPECT_THROW(DistributedSampler(5, {.rank = -1, .size = 2}), InvalidInput);
  EXPECT_THROW(DistributedSampler(5, {.pad = true, .drop_last = true}), InvalidInput);
  DistributedSampler sampler(5);
  EXPECT_THROW(sampler.next(0), InvalidInput);
  EXPECT_THROW(sampler.set_position({{"epoch", 0}, {"processed", 6}}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
