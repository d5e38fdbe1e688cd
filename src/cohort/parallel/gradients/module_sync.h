#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/gradient_options.h"

namespace cohort::parallel {

struct DistributedDataParallelOptions {
  // The parts in which the gradient of a batch is computed and added up, whatever the number of
  // ranks, which then does not show in the bits; at least one for each rank. Steps are made with
  // backward(batch, loss). 0: one a rank.
  int virtual_shards = 0;
  bool allow_unused = false;  // parameters without a gradient count as zero, not as an error
  // Keep buffers (batch norm's statistics) the same on all ranks: see the class.
  bool sync_buffers = true;
  Compression compression = Compression::none;
  std::size_t bucket_bytes = GradientSyncOptions().bucket_bytes;
  // With virtual_shards: what dropout and other random numbers of a shard follow from, together with
  // the step and the shard; and LibTorch's threads in a step, since they show in the bits.
  std::uint64_t seed = 0;
  int threads = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // for the other ranks
};

// What stands behind a DistributedDataParallel, for a module of any type: its contract is there.
class ModuleSync {
 public:
  ModuleSync(collective::Group& group, torch::nn::Module& module,
             DistributedDataParallelOptions options);
  ~ModuleSync();
  ModuleSync(const ModuleSync&) = delete;
  ModuleSync& operator=(const ModuleSync&) = delete;

  int first_shard() const;
  int shard_count() const;

  void before_forward();
  bool set_no_sync(bool on);  // returns what it was
  // The loss of own shard number `i` (from 0).
  using LossOf = std::function<torch::Tensor(std::size_t i)>;
  // `weights` of the own shards, `total` of all ranks' together; the mean of the losses by weight.
  double backward(std::span<const double> weights, double total, const LossOf& loss_of);
  std::int64_t steps() const;
  void set_steps(std::int64_t steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::parallel
