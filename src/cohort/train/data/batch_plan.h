#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Which sample is computed where. An epoch is an order of all samples; step t takes the next
// global_batch of them; virtual shard s of that step takes a contiguous run of the step's. None of
// this depends on the number of workers: they only divide the shards among themselves.
namespace cohort::train {

// Numbers [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
using ShardRange = Range;

// The virtual shards that worker `rank` of `size` computes, as gradients are divided
// (ShardPlan). InvalidInput when there are fewer shards than workers.
ShardRange shards_of(int rank, int size, int shards);

struct BatchPlanOptions {
  std::int64_t samples = 0;
  std::int64_t global_batch = 1;  // samples in a step, over all workers
  std::int64_t shards = 1;        // virtual shards in a step
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // leave out the samples that do not fill a last batch
};

// A value, immutable, thread-safe to read.
class BatchPlan {
 public:
  // InvalidInput for negative samples, or a batch or a number of shards below 1.
  explicit BatchPlan(BatchPlanOptions options);

  const BatchPlanOptions& options() const { return options_; }
  std::int64_t steps_per_epoch() const;
  // In the epoch: samples, or less with drop_last.
  std::int64_t samples_per_epoch() const;

  // Positions in the epoch's order. Sizes of shards differ by at most one, the larger ones spread
  // evenly. A last batch may be smaller, and some of its shards empty.
  Range batch(std::int64_t step) const;
  Range positions(std::int64_t step, std::int64_t shard) const;
  // Of a run of shards: what one worker computes in a step.
  Range positions(std::int64_t step, ShardRange shards) const;

 private:
  BatchPlanOptions options_;
};

// The plan of one epoch, with its order of samples (8 bytes a sample). Immutable, thread-safe to
// read.
class EpochPlan {
 public:
  EpochPlan(const BatchPlan& plan, std::int64_t epoch);

  const BatchPlan& plan() const { return plan_; }
  std::int64_t epoch() const { return epoch_; }

  // Sample numbers, for Dataset::get(). Valid as long as this object.
  std::span<const std::int64_t> batch(std::int64_t step) const;
  std::span<const std::int64_t> indices(std::int64_t step, std::int64_t shard) const;
  std::span<const std::int64_t> indices(std::int64_t step, ShardRange shards) const;

 private:
  std::span<const std::int64_t> at(Range positions) const;

  BatchPlan plan_;
  std::int64_t epoch_;
  std::vector<std::int64_t> order_;
};

}  // namespace cohort::train
