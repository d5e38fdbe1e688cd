#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/exchange.h"
#include "cohort/train/learning_rate.h"
#include "cohort/train/model.h"
#include "cohort/train/options.h"
#include "cohort/train/precision.h"
#include "cohort/train/trainer.h"

namespace cohort::train {

// One replica's part of training: its model and optimizer at work on its shards. How it agrees with
// the others is its Exchange's business. Every replica makes the same calls. Confined to the
// replica's thread.
class ReplicaTrainer {
 public:
  // `shared_process`: other replicas are threads of this process. `exchange` must outlive it.
  ReplicaTrainer(const parallel::Replica& replica, Exchange& exchange, Model model,
                 std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                 const TrainerOptions& options, bool shared_process);

  int shards() const { return shards_; }

  // Computes and applies one step; `next` gives the batch of each own shard, in ascending order.
  // Returns the sums over all shards of all replicas, the same bits everywhere.
  Sums step(const StepPlace& place, const std::function<Batch()>& next);

  // The sums over `data`, every sample once, the same bits everywhere. `limit`: at most so many
  // batches; 0: all.
  Sums evaluate(const Dataset& data, std::int64_t batch_size, std::int64_t limit = 0);

  // The outputs for all of `data`, in its order, on the CPU.
  torch::Tensor predict(const Dataset& data, std::int64_t batch_size);

  const parallel::Replica& replica() const { return replica_; }
  // In an elastic job: its place among the replicas that are there now.
  void set_replica(const parallel::Replica& replica) { replica_ = replica; }
  Exchange& exchange() { return exchange_; }
  const Model& model() const { return model_; }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  LearningRate& learning_rate() { return rate_; }
  LossScale& loss_scale() { return loss_scale_; }

 private:
  Sums run_shard(const StepPlace& place, int shard, const Batch& batch);
  Sums run_micro_batch(const StepPlace& place, const Batch& batch);
  torch::Tensor forward(const torch::Tensor& input) const;
  Sums measure(const torch::Tensor& output, const torch::Tensor& target, const torch::Tensor& loss);
  // The metric's sum over a batch; refused where it is found to be something else.
  double measure(std::size_t metric, const torch::Tensor& output, const torch::Tensor& target);
  void check_finite(const StepPlace& place, const Sums& sums) const;

  parallel::Replica replica_;
  Exchange& exchange_;
  Model model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Loss loss_;
  TrainerOptions options_;
  bool shared_process_;
  int shards_;
  LearningRate rate_;
  LossScale loss_scale_;
  std::vector<char> metric_is_sum_;  // seen to be one
};

}  // namespace cohort::train
