#include "cohort/train/data/loader.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

DatasetPtr counting_rows(std::int64_t n) {
  return std::make_shared<TensorDataset>(torch::arange(n).view({n, 1}), torch::arange(n));
}

std::vector<std::int64_t> values(const torch::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

TEST(Loader, GivesTheBatchesOfAnEpochInOrderOnEveryWorker) {
  const BatchPlan plan({.samples = 103, .global_batch = 10, .shards = 4, .seed = 1});
  const auto epoch = std::make_shared<EpochPlan>(plan, 2);
  for (const std::int64_t workers : {1, 2, 3}) {
    std::vector<int> seen(103);
    for (std::int64_t rank = 0; rank < workers; ++rank) {
      const ShardRange mine = shards_of(rank, workers, 4);
      Loader loader(counting_rows(103), epoch, mine, 0, {.depth = 3, .threads = 2});
      for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
        const auto batch = loader.next(Deadline::after(30s));
        ASSERT_TRUE(batch.has_value());
        const auto expected = epoch->indices(step, mine);
        ASSERT_EQ(values(batch->as<Batch>().target),
                  std::vector<std::int64_t>(expected.begin(), expected.end()));
        for (const std::int64_t index : values(batch->as<Batch>().target))
          ++seen[static_cast<std::size_t>(index)];
      }
      EXPECT_FALSE(loader.next().has_value());
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST(Loader, BeginsAtTheStepOfAResume) {
  const auto epoch = std::make_shared<EpochPlan>(BatchPlan({.samples = 40, .global_batch = 10}), 0);
  Loader loader(counting_rows(40), epoch, {0, 1}, 3);
  const auto batch = loader.next(Deadline::after(30s));
  const auto expected = epoch->batch(3);
  EXPECT_EQ(values(batch->as<Batch>().target),
            std::vector<std::int64_t>(expected.begin(), expected.end()));
  EXPECT_FALSE(loader.next().has_value());
  EXPECT_FALSE(Loader(counting_rows(40), epoch, {0, 1}, 4).next().has_value());
}

TEST(Loader, TakesListsAndFunctions) {
  Loader lists(counting_rows(5), {{4, 1}, {}, {0}}, {});
  EXPECT_EQ(values(lists.next(Deadline::after(30s))->as<Batch>().target),
            (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(lists.next(Deadline::after(30s))->size(), 0);
  EXPECT_EQ(lists.next(Deadline::after(30s))->size(), 1);
  Loader function(counting_rows(5), 2, [](std::int64_t i) { return std::vector<std::int64_t>{i}; },
                  {});
  function.next(Deadline::after(30s));
  EXPECT_EQ(values(function.next(Deadline::after(30s))->as<Batch>().target),
            std::vector<std::int64_t>{1});
}

TEST(Loader, ErrorsSayWhichBatchAndKeepTheirType) {
  Loader loader(counting_rows(5), {{0}, {5}}, {.seed = 0, .epoch = 7});
  EXPECT_TRUE(loader.next(Deadline::after(30s)).has_value());
  EXPECT_THAT(message_of<InvalidInput>([&] { loader.next(Deadline::after(30s)); }),
              AllOf(HasSubstr("sample 5 was asked for"), HasSubstr("batch 1 of epoch 7")));

  class Broken final : public Dataset {
   public:
    std::int64_t size() const override { return 1; }
    Batch get(std::span<const std::int64_t>, const DrawKey& key) const override {
      if (key.seed == 1) throw std::runtime_error("no more tape");
      return {torch::zeros({1, 2}) + torch::zeros({1, 3}), {}};
    }
  };
  const auto complaint = [](std::uint64_t seed) {
    return message_of<Error>([&] {
      Loader(std::make_shared<Broken>(), {{0}}, {.seed = seed}).next(Deadline::after(30s));
    });
  };
  EXPECT_THAT(complaint(1), AllOf(HasSubstr("no more tape"), HasSubstr("batch 0 of epoch 0")));
  EXPECT_THAT(complaint(2), AllOf(HasSubstr("must match"), HasSubstr("batch 0 of epoch 0")));
}

}  // namespace
}  // namespace cohort::train
