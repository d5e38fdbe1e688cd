#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/bucket.h"
#include "cohort/parallel/gradients/gradient_memory.h"
#include "cohort/parallel/sharding/gradient_shares.h"

namespace cohort::parallel {

// The buckets of a model's parameters, and in which of them each parameter's gradient lies. Large
// gradients have a bucket of their own, which adopts what autograd made, in memory that is used
// again from step to step.
//
// Threads: confined to one at a time. Ownership: `group` and `plan` must outlive it.
class GradientBuckets {
 public:
  struct Location {
    std::size_t bucket = 0;
    std::size_t entry = 0;
  };

  // `memory`: of large gradients; nullptr: one is made where there are any. `shares`: see
  // GradientSyncOptions.
  GradientBuckets(collective::Group& group, std::vector<torch::Tensor> parameters,
                  const collective::ShardPlan& plan, std::size_t first_bytes, std::size_t bytes,
                  std::shared_ptr<GradientMemory> memory, std::shared_ptr<GradientShares> shares);

  // Cuts the parameters into buckets anew; views of the old ones stay valid.
  void lay_out(const std::vector<int>& order);
  std::vector<BucketLayout> layouts() const;

  std::span<const std::unique_ptr<Bucket>> all() const { return buckets_; }
  Bucket& operator[](std::size_t bucket) const { return *buckets_[bucket]; }
  const Location& location(std::size_t parameter) const { return locations_[parameter]; }

  // Drops the gradients of the step before that buckets adopted and keep.
  void release();
  // While it lives, large gradients made on this thread lie in their own memory.
  void use_memory(std::optional<GradientMemory::Use>& use, GradientMemory::Reader reader) const;

 private:
  bool is_large(const torch::Tensor& parameter) const;
  const GradientShares::Share* share_of(const torch::Tensor& parameter) const;

  collective::Group& group_;
  std::vector<torch::Tensor> parameters_;
  const collective::ShardPlan& plan_;
  BucketSizes sizes_;
  std::vector<std::size_t> large_bytes_;    // of the gradients that are large
  std::shared_ptr<GradientMemory> memory_;  // for those; nullptr where there are none
  std::shared_ptr<GradientShares> shares_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Location> locations_;  // by parameter
};

}  // namespace cohort::parallel
