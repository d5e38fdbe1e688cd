#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/loop/measured_sums.h"
#include "cohort/train/model/learning_rate.h"
#include "cohort/train/model/losses.h"
#include "cohort/train/model/model.h"
#include "cohort/train/model/precision.h"
#include "cohort/train/options/options.h"
#include "cohort/train/sync/replica_sync.h"

namespace cohort::train {

// One replica's part of training: its model and optimizer at work on its shards. What it does
// together with the others is its ReplicaSync's business. Every replica makes the same calls.
// Losses and metrics stay on the device until a step's or an evaluation's end, and are read there
// at once. Confined to the replica's thread.
class ReplicaTrainer {
 public:
  // `shared_process`: other replicas are threads of this process. `sync` must outlive it.
  ReplicaTrainer(ReplicaSync& sync, Model model, std::shared_ptr<torch::optim::Optimizer> optimizer,
                 Loss loss, const TrainerOptions& options, bool shared_process);

  int shards() const { return shards_; }

  // Computes and applies one step; `next` gives the batch of each own shard, in ascending order.
  // The result's sums are over all shards of all replicas, the same bits everywhere.
  StepResult step(const StepInfo& info, const std::function<AnyBatch()>& next);

  // The sums over `data`, every sample once, the same bits everywhere. `limit`: at most so many
  // batches; 0: all.
  Sums evaluate(const SampleSource& data, std::int64_t batch_size, std::int64_t limit = 0);

  // The outputs for all of `data`, in its order, on the CPU.
  torch::Tensor predict(const SampleSource& data, std::int64_t batch_size);

  const parallel::Replica& replica() const { return sync_.replica; }  // as it is now
  ReplicaSync& sync() const { return sync_; }
  const Model& model() const { return model_; }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  LearningRate& learning_rate() { return rate_; }
  LossScale& loss_scale() { return loss_scale_; }

 private:
  void run_shard(const StepInfo& info, int shard, const AnyBatch& batch);
  void run_micro_batch(const StepInfo& info, const Batch& batch);
  torch::Tensor forward(const torch::Tensor& input) const;
  // The loss and the metrics of a batch, for `measured_`.
  void measure(const torch::Tensor& output, const torch::Tensor& target, const torch::Tensor& loss);
  // The metric's sum over a batch; refused where it is found to be something else.
  torch::Tensor measure(std::size_t metric, const torch::Tensor& output,
                        const torch::Tensor& target);
  void check_finite(const StepInfo& info, const Sums& sums) const;

  ReplicaSync& sync_;
  Model model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Loss loss_;
  TrainerOptions options_;
  bool shared_process_;
  int shards_;
  LearningRate rate_;
  LossScale loss_scale_;
  std::vector<char> metric_is_sum_;  // seen to be one
  MeasuredSums measured_;            // of the step or the evaluation under way
};

}  // namespace cohort::train
