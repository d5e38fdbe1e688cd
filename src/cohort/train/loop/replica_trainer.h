#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/parallel/gradients/replica.h"
#include "cohort/parallel/tensors/random_scope.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/loop/graphed_shards.h"
#include "cohort/train/loop/measured_sums.h"
#include "cohort/train/loop/unread_steps.h"
#include "cohort/train/model/learning_rate.h"
#include "cohort/train/model/model.h"
#include "cohort/train/model/precision.h"
#include "cohort/train/model/training_step.h"
#include "cohort/train/model/weight_average.h"
#include "cohort/train/options/options.h"
#include "cohort/train/sync/replica_sync.h"

namespace cohort::train {

// What an evaluation has measured: numbers, and the tensors that metrics make.
struct Evaluated {
  Logs logs;
  std::map<std::string, torch::Tensor> tensors;
};

// One replica's part of training: its model and optimizers at work on its shards. What it does
// together with the others is its ReplicaSync's business. Every replica makes the same calls.
// Losses and metrics stay on the device until a step's or an evaluation's end, and are read there
// at once. Confined to the replica's thread.
class ReplicaTrainer {
 public:
  // `phases`: at least one, as many as `sync` has. `shared_process`: other replicas are threads of
  // this process. `sync` must outlive it.
  ReplicaTrainer(ReplicaSync& sync, Model model, const std::vector<Phase>& phases,
                 const TrainerOptions& options, bool shared_process);

  int shards() const { return shards_; }

  // How steps are read: their sums stay on the device for up to `every` of them, where that can be
  // (0: as FitOptions::read_every says). Before the first step of a fit(). `one_shape`: of the batches,
  // SampleSource::has_one_shape().
  void begin_reading(std::int64_t every, bool one_shape, bool speaks);
  // After a fit(): what was recorded goes, which refers to the group and the model as they are.
  void end_reading();

  // Computes and applies one step, phase after phase; `next` gives the batch of each own shard, in
  // ascending order. `units`: StepInfo::weight_unit of each phase, and of the next step on return.
  // Returns the results of the steps that were read, in their order: of this one, or of earlier
  // ones, or none; read_rest() gives those that are left. Their sums are over all shards of all
  // replicas, the same bits everywhere.
  std::vector<StepResult> step(const StepInfo& info, std::vector<double>& units,
                               const std::function<AnyBatch()>& next);
  std::vector<StepResult> read_rest();

  // The logs of `data`, every sample once, the same bits everywhere; names begin with `prefix`.
  // `limit`: at most so many batches; 0: all.
  Evaluated evaluate(const SampleSource& data, std::int64_t batch_size,
                     const std::string& prefix = "", std::int64_t limit = 0);

  // The outputs for all of `data`, in its order, on the CPU.
  torch::Tensor predict(const SampleSource& data, const Prediction& prediction,
                        std::int64_t batch_size);

  Sums no_sums() const { return Sums(options_.metrics, phases_.size()); }
  Logs logs(const Sums& sums) const;  // of a step or an epoch

  const parallel::Replica& replica() const { return sync_.replica; }  // as it is now
  ReplicaSync& sync() const { return sync_; }
  const Model& model() const { return model_; }
  std::size_t phases() const { return phases_.size(); }
  std::vector<std::string> phase_names() const;  // none where there is one phase
  torch::optim::Optimizer& optimizer(std::size_t phase = 0) { return *phases_[phase].optimizer; }
  LossScale& loss_scale(std::size_t phase = 0) { return *phases_[phase].loss_scale; }
  LearningRate& learning_rate() { return *rate_; }
  WeightAverage& average() { return average_; }

  // Called in step() before each phase's update; see GradientCallback. Nothing: no call.
  using BeforeUpdate = std::function<void(std::size_t phase)>;
  void set_before_update(BeforeUpdate call) { before_update_ = std::move(call); }
  // Collective: replica 0's gradients of that phase, everywhere.
  void broadcast_gradients(std::size_t phase);
  // Collective: all that replica 0 trains, everywhere.
  void broadcast_from_first();

 private:
  struct TrainedPhase {
    std::string name;
    std::shared_ptr<torch::optim::Optimizer> optimizer;
    TrainingStep step;
    std::unique_ptr<LossScale> loss_scale;
    StepSync* sync;
    std::vector<torch::Tensor> others;  // parameters that it does not update
    std::uint64_t seed;
  };
  StepResult run_phases(const StepInfo& info, std::vector<double>& units,
                        const std::function<AnyBatch()>& next);
  StepResult run_phase(std::size_t number, const StepInfo& info,
                       const std::function<AnyBatch(int)>& batch_of);
  void defer_from_here(const StepResult& first);
  std::vector<StepResult> run_unread(const StepInfo& info, double& unit,
                                     const std::function<AnyBatch()>& next);
  GraphedShards::Shard part_of_step(TrainedPhase& phase, const StepInfo& info, int number,
                                    double& weight);
  std::vector<StepResult> read(const std::vector<UnreadSteps::ReadStep>& steps);
  std::unique_ptr<parallel::RandomScope> random_numbers_of(const TrainedPhase& phase,
                                                           const StepInfo& info, int shard) const;
  void run_shard(TrainedPhase& phase, const StepInfo& info, int shard, const AnyBatch& batch);
  void run_micro_batch(TrainedPhase& phase, const StepInfo& info, const AnyBatch& batch);
  std::vector<torch::Tensor> parameters_without(const torch::optim::Optimizer& optimizer) const;
  // The sums over all replicas' batches; this one has those of `own`.
  Sums evaluate(const TrainingStep& step, MeasuredSums::What what, const SampleSource& data,
                std::int64_t batch_size, Range own, std::int64_t batches);
  std::unique_ptr<parallel::RandomScope> random_numbers_of(std::int64_t batch) const;
  void check_finite(const StepInfo& info, const TrainedPhase& phase, const Sums& sums) const;

  ReplicaSync& sync_;
  Model model_;
  TrainerOptions options_;
  bool shared_process_;
  int shards_;
  std::vector<TrainedPhase> phases_;
  std::unique_ptr<LearningRate> rate_;
  MeasuredSums measured_;  // of the phase or the evaluation under way
  WeightAverage average_;
  BeforeUpdate before_update_;
  std::int64_t read_every_ = 1;
  std::optional<double> own_weight_;   // of the last step's losses, where the host knew it
  std::optional<UnreadSteps> unread_;  // once steps are read later
  std::optional<GraphedShards> graphs_;
};

}  // namespace cohort::train
