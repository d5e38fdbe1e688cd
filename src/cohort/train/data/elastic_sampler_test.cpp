#include "cohort/train/data/elastic_sampler.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

// One sampler a rank, in step.
class Workers {
 public:
  Workers(std::int64_t samples, int size, std::int64_t batch_size)
      : seen(static_cast<std::size_t>(samples)),
        first_(samples, {.batch_size = batch_size, .seed = 7}) {
    first_.set_epoch(3);
    resize(size);
  }
  void resize(int size) {
    const auto position = ranks_.empty() ? first_.position() : ranks_.front().position();
    ranks_.assign(static_cast<std::size_t>(size), first_);
    for (int rank = 0; rank < size; ++rank) {
      auto& sampler = ranks_[static_cast<std::size_t>(rank)];
      sampler.set_members(rank, size);
      sampler.set_position(position);
      sampler.set_epoch(3);  // as a loop that is entered again does
    }
  }
  std::int64_t batches() const {
    for (const auto& sampler : ranks_) EXPECT_EQ(sampler.batches(), ranks_[0].batches());
    return ranks_[0].batches();
  }
  void step() {
    std::int64_t total = 0;
    for (auto& sampler : ranks_) {
      const auto mine = sampler.batch();
      const auto share = sampler.options().batch_size / static_cast<std::int64_t>(ranks_.size());
      EXPECT_LE(mine.size(), static_cast<std::size_t>(share + 1));
      for (const std::int64_t index : mine) ++seen[static_cast<std::size_t>(index)];
      total += static_cast<std::int64_t>(mine.size());
    }
    EXPECT_EQ(total, ranks_[0].batch_total());
    for (auto& sampler : ranks_) sampler.record_batch();
  }

  std::vector<int> seen;

 private:
  ElasticSampler first_;
  std::vector<ElasticSampler> ranks_;
};

TEST(ElasticSampler, EachSampleOnceWhateverTheMembers) {
  for (const std::int64_t samples : {0, 1, 5, 24, 101})
    for (const int size : {1, 2, 3, 8}) {
      Workers workers(samples, size, 4);
      while (workers.batches() > 0) workers.step();
      EXPECT_THAT(workers.seen, ::testing::Each(1)) << samples << " samples, " << size << " ranks";
    }
}

TEST(ElasticSampler, EachSampleOnceThroughChangesOfMembers) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    Workers workers(1 + static_cast<std::int64_t>(random() % 300), 3, 1 + random() % 7);
    while (workers.batches() > 0) {
      workers.step();
      if (random() % 2 == 0) workers.resize(1 + static_cast<int>(random() % 5));
    }
    EXPECT_THAT(workers.seen, ::testing::Each(1)) << "trial " << trial;
  }
}

TEST(ElasticSampler, TheLastBatchIsDividedEvenly) {
  std::vector<std::size_t> parts;
  for (int rank = 0; rank < 4; ++rank) {
    ElasticSampler sampler(10, {.batch_size = 16});
    sampler.set_members(rank, 4);
    ASSERT_EQ(sampler.batches(), 1);
    parts.push_back(sampler.batch().size());
  }
  EXPECT_THAT(parts, ::testing::ElementsAre(2, 3, 2, 3));
}

TEST(ElasticSampler, BatchesAheadAreThoseThatCome) {
  ElasticSampler sampler(20, {.batch_size = 6});
  sampler.set_members(1, 2);
  std::vector<std::vector<std::int64_t>> ahead;
  for (std::int64_t i = 0; i < sampler.batches(); ++i) ahead.push_back(sampler.batch(i));
  for (const auto& expected : ahead) {
    EXPECT_EQ(sampler.batch(), expected);
    sampler.record_batch();
  }
  EXPECT_EQ(sampler.processed(), 20);
}

TEST(ElasticSampler, ABatchIsTheSameForAnyNumberOfRanks) {
  const auto batches_of = [](int size) {
    std::vector<std::vector<std::int64_t>> batches;
    for (std::int64_t i = 0; i < 3; ++i) {
      auto& all = batches.emplace_back();
      for (int rank = 0; rank < size; ++rank) {
        ElasticSampler sampler(20, {.batch_size = 8});
        sampler.set_members(rank, size);
        EXPECT_EQ(sampler.batches(), 3);
        for (const std::int64_t index : sampler.batch(i)) all.push_back(index);
      }
    }
    return batches;
  };
  EXPECT_EQ(batches_of(3), batches_of(1));
}

TEST(ElasticSampler, ANewEpochHasAnotherOrderAndTheCurrentOneGoesOn) {
  ElasticSampler sampler(50, {.batch_size = 5});
  const auto first = sampler.batch();
  sampler.record_batch();
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.processed(), 5);
  sampler.set_epoch(1);
  EXPECT_EQ(sampler.processed(), 0);
  EXPECT_NE(sampler.batch(), first);
}

TEST(ElasticSampler, RefusesWhatCannotBe) {
  EXPECT_THROW(ElasticSampler(-1), InvalidInput);
  EXPECT_THROW(ElasticSampler(5, {.batch_size = 0}), InvalidInput);
  ElasticSampler sampler(5, {.batch_size = 5});
  sampler.record_batch();
  EXPECT_THROW(sampler.batch(), InvalidInput);
  EXPECT_THROW(sampler.record_batch(), InvalidInput);
  EXPECT_THROW(sampler.set_position({{"epoch", 0}, {"processed", 6}}), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
