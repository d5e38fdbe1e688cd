#include "cohort/train/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/collective/form.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Rows = std::vector<std::int64_t>;

struct Sentence {
  torch::Tensor ids, mask;
};

// Sample i has the id i.
class Sentences final : public DatasetOf<Sentence> {
 public:
  explicit Sentences(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  bool is_sequential() const override { return sequential_; }
  Sentence get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
    if (bad_ >= 0 && std::find(indices.begin(), indices.end(), bad_) != indices.end())
      throw InvalidInput("sentence 3 is empty");
    const torch::Tensor ids =
        torch::tensor(Rows(indices.begin(), indices.end()), torch::kLong).view({-1, 1});
    return {ids, torch::full_like(ids, key.epoch)};
  }
  std::int64_t bad_ = -1;
  bool sequential_ = false;

 private:
  std::int64_t size_;
};

Rows ids_of(const Sentence& batch) {
  const torch::Tensor flat = batch.ids.reshape(-1);
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

void append(Rows& all, const Rows& more) { all.insert(all.end(), more.begin(), more.end()); }

using Loaders = std::vector<DataLoader<Sentence>>;
Loaders loaders_of(int ranks, std::int64_t samples, const DataLoaderOptions& options) {
  static std::vector<std::vector<std::unique_ptr<collective::Group>>> groups;
  groups.push_back(collective::make_inproc_groups(ranks, std::chrono::seconds(20)));
  Loaders loaders;
  for (const auto& group : groups.back())
    loaders.emplace_back(*group, std::make_shared<const Sentences>(samples), options);
  return loaders;
}

// The samples of each step, over all ranks.
std::vector<Rows> steps_of(Loaders& loaders) {
  std::vector<Rows> steps;
  for (auto& loader : loaders) {
    std::size_t number = 0;
    for (const auto& step : loader.steps()) {
      steps.resize(std::max(steps.size(), ++number));
      double total = 0;
      for (std::size_t i = 0; i < step.shards.size(); ++i) {
        EXPECT_EQ(step.weights[i], static_cast<double>(step.shards[i].ids.size(0)));
        append(steps[number - 1], ids_of(step.shards[i]));
        total += step.weights[i];
      }
      EXPECT_LE(total, step.total);
    }
  }
  return steps;
}

TEST(DataLoader, ASourceWithAnOrderOfItsOwnKeepsIt) {
  const auto groups = collective::make_inproc_groups(1, std::chrono::seconds(20));
  const auto source = std::make_shared<Sentences>(20);
  source->sequential_ = true;
  DataLoader<Sentence> loader(*groups[0], source, {.batch_size = 6, .shuffle = true});
  Rows all, expected;
  for (const auto& step : loader.steps())
    for (const Sentence& shard : step.shards) append(all, ids_of(shard));
  for (std::int64_t i = 0; i < 20; ++i) expected.push_back(i);
  EXPECT_EQ(all, expected);
}

TEST(DataLoader, AStepHasTheSameSamplesForAnyNumberOfRanksAndShards) {
  Loaders alone = loaders_of(1, 50, {.batch_size = 16, .seed = 3});
  const auto expected = steps_of(alone);
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(expected[3].size(), 2u);
  for (const int ranks : {1, 2, 3, 4})
    for (const int shards : {0, 5}) {
      Loaders loaders =
          loaders_of(ranks, 50, {.batch_size = 16, .virtual_shards = shards, .seed = 3});
      EXPECT_EQ(steps_of(loaders), expected) << ranks << " ranks, " << shards << " shards";
    }
}

TEST(DataLoader, BatchesOfARangeForAreTheRanksParts) {
  for (const int workers : {0, 1, 3}) {
    Loaders loaders = loaders_of(3, 60, {.batch_size = 12, .workers = workers, .prefetch = 4});
    std::vector<int> seen(60);
    for (auto& loader : loaders) {
      EXPECT_EQ(loader.steps_per_epoch(), 5);
      for (const Sentence& batch : loader) {
        EXPECT_EQ(batch.ids.size(0), 4);
        for (const std::int64_t id : ids_of(batch)) ++seen[static_cast<std::size_t>(id)];
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST(DataLoader, EachEpochHasAnOrderOfItsOwn) {
  auto loader = std::move(loaders_of(1, 30, {.batch_size = 30})[0]);
  const auto epoch = [&] {
    Rows all;
    for (const Sentence& batch : loader) {
      append(all, ids_of(batch));
      EXPECT_EQ(batch.mask[0].item<std::int64_t>(), loader.epoch());  // for augmentation
    }
    return all;
  };
  const Rows first = epoch();
  EXPECT_EQ(loader.epoch(), 1);  // the next one, without set_epoch()
  const Rows second = epoch();
  EXPECT_NE(first, second);
  loader.set_epoch(0);
  EXPECT_EQ(epoch(), first);
  auto in_order = std::move(loaders_of(1, 30, {.batch_size = 7, .shuffle = false})[0]);
  Rows sorted;
  for (const Sentence& batch : in_order) append(sorted, ids_of(batch));
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(DataLoader, GoesOnInTheMiddleOfAnEpochAlsoWithOtherRanks) {
  Loaders before = loaders_of(2, 44, {.batch_size = 8, .seed = 5});
  for (auto& loader : before) {
    loader.set_epoch(2);
    loader.next();
    loader.next();
  }
  const nlohmann::json position = before[0].position();
  const auto rest = steps_of(before);
  ASSERT_EQ(rest.size(), 4u);
  Loaders after = loaders_of(3, 44, {.batch_size = 8, .seed = 5});
  for (auto& loader : after) {
    loader.set_position(position);
    EXPECT_EQ(loader.epoch(), 2);
    EXPECT_EQ(loader.step(), 2);
    loader.set_epoch(2);  // as a loop that is entered again does
  }
  EXPECT_EQ(steps_of(after), rest);
  // At the end of an epoch: the next one.
  EXPECT_EQ(before[0].position(), (nlohmann::json{{"epoch", 3}, {"processed", 0}}));
}

TEST(DataLoader, AfterABreakItGoesOnUnlessToldOtherwise) {
  auto loader = std::move(loaders_of(1, 9, {.batch_size = 3, .shuffle = false})[0]);
  for (const Sentence& batch : loader) {
    EXPECT_EQ(ids_of(batch), (Rows{0, 1, 2}));
    break;
  }
  EXPECT_EQ(ids_of(*loader.next()), (Rows{3, 4, 5}));
  loader.restart();
  EXPECT_EQ(ids_of(*loader.next()), (Rows{0, 1, 2}));
}

TEST(DataLoader, BatchesComeOnTheGpuThatWasAskedFor) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  auto loader =
      std::move(loaders_of(1, 40, {.batch_size = 8, .shuffle = false, .device = torch::kCUDA})[0]);
  std::int64_t next = 0;
  for (const Sentence& batch : loader) {
    EXPECT_TRUE(batch.ids.is_cuda());
    for (const std::int64_t id : ids_of({batch.ids.cpu(), batch.mask})) EXPECT_EQ(id, next++);
  }
  EXPECT_EQ(next, 40);
}

TEST(DataLoader, AnErrorOfTheDataSetComesInItsTurn) {
  const auto group = collective::make_group_of_one();
  auto data = std::make_shared<Sentences>(9);
  data->bad_ = 7;
  DataLoader<Sentence> loader(*group, data, {.batch_size = 3, .shuffle = false});
  EXPECT_NO_THROW(loader.next());
  EXPECT_NO_THROW(loader.next());
  EXPECT_THAT(message_of<InvalidInput>([&] { loader.next(); }),
              AllOf(HasSubstr("sentence 3 is empty"), HasSubstr("batch 2 of epoch 0")));
}

TEST(DataLoader, RefusesWhatCannotBe) {
  const auto make = [](const DataLoaderOptions& options, std::int64_t samples = 50) {
    return std::move(loaders_of(3, samples, options)[0]);
  };
  EXPECT_THAT(message_of<InvalidInput>([&] { make({.batch_size = 0}); }), HasSubstr("batch_size"));
  EXPECT_THAT(message_of<InvalidInput>([&] { make({.virtual_shards = 2}); }),
              AllOf(HasSubstr("virtual_shards is 2"), HasSubstr("3 ranks")));
  EXPECT_THAT(message_of<InvalidInput>([&] { make({.prefetch = 0}); }), HasSubstr("prefetch"));
  EXPECT_THAT(message_of<InvalidInput>([&] { make({.virtual_shards = 3}).next(); }),
              HasSubstr("loader.steps()"));
  EXPECT_THAT(message_of<InvalidInput>([&] { make({.batch_size = 16}).next(); }),
              AllOf(HasSubstr("the last batch has 2 samples for 3 ranks"), HasSubstr("drop_last")));
  EXPECT_NO_THROW(make({.batch_size = 16, .drop_last = true}).next());
  EXPECT_THAT(message_of<InvalidInput>([&] {
                make({.batch_size = 8}).set_position({{"epoch", 0}, {"processed", 5}});
              }),
              HasSubstr("batches of 8"));
  const auto group = collective::make_group_of_one();
  EXPECT_THAT(message_of<InvalidInput>([&] { DataLoader<Batch>(*group, nullptr); }),
              HasSubstr("no data set"));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { DataLoader<Batch>(*group, std::make_shared<const Sentences>(4)).next(); }),
              HasSubstr("Sentence"));
}

}  // namespace
}  // namespace cohort::train
