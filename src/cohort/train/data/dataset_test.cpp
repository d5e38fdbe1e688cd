#include "cohort/train/data/dataset.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/torch_dataset.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

DatasetPtr counting(std::int64_t n) {
  return std::make_shared<TensorDataset>(torch::arange(n * 2).reshape({n, 2}), torch::arange(n));
}

Indices targets(const Dataset& dataset, const Indices& indices) {
  const Batch batch = dataset.get(indices, {});
  EXPECT_EQ(batch.size(), static_cast<std::int64_t>(indices.size()));
  return Indices(batch.target.data_ptr<std::int64_t>(),
                 batch.target.data_ptr<std::int64_t>() + batch.target.numel());
}

TEST(TensorDataset, GivesTheSamplesAskedForInThatOrder) {
  const auto dataset = counting(5);
  EXPECT_EQ(dataset->size(), 5);
  const Batch batch = dataset->get(Indices{4, 0, 4}, {});
  EXPECT_TRUE(torch::equal(batch.data, torch::tensor({{8, 9}, {0, 1}, {8, 9}}, torch::kInt64)));
  EXPECT_EQ(targets(*dataset, {4, 0, 4}), (Indices{4, 0, 4}));
  EXPECT_EQ(dataset->get(Indices{}, {}).data.sizes(), torch::IntArrayRef({0, 2}));
}

TEST(TensorDataset, RefusesWhatIsNotThere) {
  EXPECT_THAT(message_of<InvalidInput>([] {
                counting(5)->get(Indices{1, 5}, {});
              }),
              HasSubstr("sample 5 was asked for; the data set has samples 0 to 4"));
  EXPECT_THROW(counting(5)->get(Indices{-1}, {}), InvalidInput);
  EXPECT_THAT(message_of<InvalidInput>([] {
                TensorDataset(torch::zeros({3, 2}), torch::zeros({4}));
              }),
              HasSubstr("3 samples and 4 targets"));
  EXPECT_THROW(TensorDataset(torch::zeros({3}), torch::Tensor()), InvalidInput);
}

TEST(Subset, CountsItsOwnSamples) {
  const Subset subset(counting(10), {7, 3, 9});
  EXPECT_EQ(subset.size(), 3);
  EXPECT_EQ(targets(subset, {2, 0}), (Indices{9, 7}));
  EXPECT_THROW(subset.get(Indices{3}, {}), InvalidInput);
  EXPECT_THROW(Subset(counting(2), {2}), InvalidInput);
}

TEST(Subset, TakeGivesTheFirst) {
  EXPECT_EQ(targets(*take(counting(10), 3), {0, 1, 2}), (Indices{0, 1, 2}));
  EXPECT_EQ(take(counting(10), 3)->size(), 3);
  EXPECT_EQ(take(counting(10), 30)->size(), 10);
  EXPECT_THROW(take(counting(10), -1), InvalidInput);
}

TEST(Subset, ShardsHaveEverySampleOnce) {
  for (const std::int64_t size : {1, 2, 3, 7, 12}) {
    std::vector<int> seen(10);
    for (std::int64_t rank = 0; rank < size; ++rank) {
      const auto part = shard(counting(10), size, rank);
      for (std::int64_t i = 0; i < part->size(); ++i)
        ++seen[static_cast<std::size_t>(targets(*part, {i})[0])];
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
  EXPECT_THROW(shard(counting(10), 2, 2), InvalidInput);
}

// Counts up, one example at a time, as users of LibTorch write theirs.
class Counting : public torch::data::datasets::Dataset<Counting> {
 public:
  torch::data::Example<> get(size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {torch::full({2}, value, torch::kFloat32), torch::tensor(value, torch::kInt64)};
  }
  torch::optional<size_t> size() const override { return 6; }
};

TEST(TorchDataset, AdaptsPlainMappedAndStackedOnes) {
  const auto plain = adapt(Counting());
  EXPECT_EQ(plain->size(), 6);
  EXPECT_EQ(targets(*plain, {5, 1}), (Indices{5, 1}));
  EXPECT_EQ(plain->get(Indices{5, 1}, {}).data.sizes(), torch::IntArrayRef({2, 2}));

  const auto mapped = adapt(Counting().map(torch::data::transforms::Normalize<>(1.0, 2.0)));
  EXPECT_TRUE(torch::equal(mapped->get(Indices{5}, {}).data.flatten(), torch::full({2}, 2.0f)));

  const auto stacked = adapt(Counting().map(torch::data::transforms::Stack<>()));
  EXPECT_EQ(targets(*stacked, {2, 3, 4}), (Indices{2, 3, 4}));

  EXPECT_EQ(plain->get(Indices{}, {}).data.sizes(), torch::IntArrayRef({0, 2}));
  EXPECT_THROW(plain->get(Indices{6}, {}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
