#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/parallel/gradients/bucket_event.h"
#include "cohort/parallel/gradients/bucket_layout.h"
#include "cohort/parallel/gradients/shard_turns.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

class GradientMemory;
class GradientShares;

struct CollectorOptions {
  std::size_t first_bucket_bytes = 0;
  std::size_t bucket_bytes = 0;
  bool allow_unused = false;
  bool accumulates = false;
  std::shared_ptr<GradientMemory> memory = {};  // host_gradients.h
  std::shared_ptr<GradientShares> shares = {};  // host_gradients.h
};

// What stands behind a GradientSync, whose contract has the calls: takes each parameter's gradient
// from autograd, shard by shard, and makes the sum over all ranks of it. HostGradients does so in
// memory that a group's ranks share, DeviceGradients on GPUs.
//
// Confined to the replica's thread, but for what a subclass does in autograd's hooks.
class GradientCollector {
 public:
  virtual ~GradientCollector() = default;
  GradientCollector(const GradientCollector&) = delete;
  GradientCollector& operator=(const GradientCollector&) = delete;

  collective::ShardRange own_shards() const { return turns_.own(); }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::string>& names() const { return names_; }
  std::chrono::nanoseconds waited() const { return waited_; }

  virtual std::vector<BucketLayout> layouts() const = 0;
  virtual void begin_shard(int shard) = 0;
  virtual void end_shard() = 0;
  virtual bool discard_shard() = 0;
  virtual void finish(Deadline deadline) = 0;
  virtual bool set_no_sync(bool on) = 0;  // returns what it was
  virtual bool can_be_captured() const = 0;
  virtual void record_events(bool /*on*/) {}
  virtual std::vector<BucketEvent> take_events() { return {}; }

 protected:
  // Why finish() must fail.
  struct Problem {
    std::string reason;
    std::string advice;
  };

  // `own`: the shards of this rank.
  GradientCollector(int rank, const NamedTensors& parameters, const CollectorOptions& options,
                    collective::ShardRange own);

  Problem missing(const std::vector<std::size_t>& parameters, int shard) const;
  Problem second_gradient(std::size_t parameter) const;
  Problem sparse_gradient(std::size_t parameter) const;
  [[noreturn]] static void raise(const Problem& problem);

  bool allow_unused_;
  bool accumulates_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // once each, those that require gradients
  ShardTurns turns_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace cohort::parallel
