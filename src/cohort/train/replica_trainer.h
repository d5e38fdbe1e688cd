#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cohort/parallel/buffer_sync.h"
#include "cohort/parallel/gradient_sync.h"
#include "cohort/parallel/replica.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/learning_rate.h"
#include "cohort/train/model.h"
#include "cohort/train/options.h"
#include "cohort/train/precision.h"
#include "cohort/train/trainer.h"

namespace cohort::train {

// One step's place in the training, and how many samples it has over all replicas.
struct StepPlace {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // of the whole training
  std::int64_t samples = 0;
};

// One replica's part of training: its model and optimizer, and their agreement with the others'.
// Every replica makes the same calls. Confined to the replica's thread.
class ReplicaTrainer {
 public:
  // `shared_process`: other replicas are threads of this process.
  ReplicaTrainer(const parallel::Replica& replica, Model model,
                 std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                 const TrainerOptions& options, bool shared_process);

  int first_shard() const { return gradients_.first_shard(); }
  int shard_count() const { return gradients_.shard_count(); }
  int shards() const { return shards_; }

  // Worker 0's parameters, buffers and optimizer state, everywhere.
  void take_values_of_first();

  // Buffers that steps do not keep equal (not deterministic): worker 0's, everywhere.
  void take_buffers_of_first();

  // Computes and applies one step; `next` gives the batch of each own shard, in ascending order.
  // Returns the sums over all shards of all replicas, the same bits everywhere.
  Sums step(const StepPlace& place, const std::function<Batch()>& next);

  // The sums over `data`, every sample once, the same bits everywhere. `limit`: at most so many
  // batches; 0: all.
  Sums evaluate(const Dataset& data, std::int64_t batch_size, std::int64_t limit = 0);

  // The outputs for all of `data`, in its order, on the CPU.
  torch::Tensor predict(const Dataset& data, std::int64_t batch_size);

  // Time spent waiting for other replicas.
  std::chrono::nanoseconds waited() const { return gradients_.waited() + waited_; }

  const parallel::Replica& replica() const { return replica_; }
  const Model& model() const { return model_; }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  LearningRate& learning_rate() { return rate_; }
  LossScale& loss_scale() { return loss_scale_; }
  parallel::GradientSync& gradients() { return gradients_; }

 private:
  Sums run_shard(const StepPlace& place, int shard, const Batch& batch);
  Sums run_micro_batch(const StepPlace& place, const Batch& batch);
  torch::Tensor forward(const torch::Tensor& input) const;
  Sums measure(const torch::Tensor& output, const torch::Tensor& target, const torch::Tensor& loss);
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t all);
  void check_finite(const StepPlace& place, const Sums& sums) const;
  Deadline deadline() const { return Deadline::after(options_.step_timeout); }

  parallel::Replica replica_;
  Model model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Loss loss_;
  TrainerOptions options_;
  bool shared_process_;
  int shards_;
  parallel::NamedTensors parameters_;
  parallel::GradientSync gradients_;
  parallel::BufferSync buffers_;
  LearningRate rate_;
  LossScale loss_scale_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
