#include "cohort/train/data/batch_plan.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::train {
namespace {

// floor(count * part / parts), without a product that could overflow.
std::int64_t boundary(std::int64_t count, std::int64_t parts, std::int64_t part) {
  return count / parts * part + count % parts * part / parts;
}

}  // namespace

ShardRange shards_of(int rank, int size, int shards) {
  const auto own = collective::shards_of(rank, size, shards);
  return {own.first, own.first + own.count};
}

BatchPlan::BatchPlan(BatchPlanOptions options) : options_(options) {
  if (options.samples < 0)
    throw InvalidInput(fmt::format("a data set of {} samples", options.samples));
  if (options.global_batch < 1)
    throw InvalidInput(
        fmt::format("the global batch is {}; it must be at least 1", options.global_batch));
  if (options.shards < 1)
    throw InvalidInput(fmt::format("{} virtual shards; there must be at least 1", options.shards));
}

std::int64_t BatchPlan::steps_per_epoch() const {
  const std::int64_t full = options_.samples / options_.global_batch;
  const bool partial = options_.samples % options_.global_batch != 0;
  return full + (partial && !options_.drop_last ? 1 : 0);
}

std::int64_t BatchPlan::samples_per_epoch() const {
  return options_.drop_last ? steps_per_epoch() * options_.global_batch : options_.samples;
}

Range BatchPlan::batch(std::int64_t step) const {
  COHORT_CHECK(step >= 0 && step < steps_per_epoch(), "step {} of an epoch of {}", step,
               steps_per_epoch());
  const std::int64_t begin = step * options_.global_batch;
  return {begin, begin + std::min(options_.global_batch, options_.samples - begin)};
}

Range BatchPlan::positions(std::int64_t step, std::int64_t shard) const {
  return positions(step, ShardRange{shard, shard + 1});
}

Range BatchPlan::positions(std::int64_t step, ShardRange shards) const {
  COHORT_CHECK(shards.begin >= 0 && shards.begin <= shards.end && shards.end <= options_.shards,
               "shards {} to {} of {}", shards.begin, shards.end, options_.shards);
  const Range all = batch(step);
  return {all.begin + boundary(all.size(), options_.shards, shards.begin),
          all.begin + boundary(all.size(), options_.shards, shards.end)};
}

EpochPlan::EpochPlan(const BatchPlan& plan, std::int64_t epoch) : plan_(plan), epoch_(epoch) {
  const BatchPlanOptions& options = plan.options();
  if (options.shuffle) {
    order_ = permutation(options.samples, options.seed, epoch);
  } else {
    order_.resize(static_cast<std::size_t>(options.samples));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
  }
}

std::span<const std::int64_t> EpochPlan::at(Range positions) const {
  return std::span(order_).subspan(static_cast<std::size_t>(positions.begin),
                                   static_cast<std::size_t>(positions.size()));
}

std::span<const std::int64_t> EpochPlan::batch(std::int64_t step) const {
  return at(plan_.batch(step));
}

std::span<const std::int64_t> EpochPlan::indices(std::int64_t step, std::int64_t shard) const {
  return at(plan_.positions(step, shard));
}

std::span<const std::int64_t> EpochPlan::indices(std::int64_t step, ShardRange shards) const {
  return at(plan_.positions(step, shards));
}

}  // namespace cohort::train
