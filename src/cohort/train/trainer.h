#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/parallel/strategies/strategy.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/model/losses.h"
#include "cohort/train/model/model.h"
#include "cohort/train/model/training_step.h"
#include "cohort/train/options/options.h"

namespace cohort::train {

// Makes the optimizer of one replica over its parameters.
using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor> parameters)>;

// Trains a model with any strategy: alone, on several replicas of this process, on many workers.
//
//   Trainer trainer(context.strategy(), net, optimizer, cross_entropy, {.batch_size = 128});
//   trainer.fit(train_data, {.epochs = 3, .validation = test_data});
//
// A model that is not one tensor in, one tensor out, or a loss that is no mean over samples, is
// given by a training step, a function of the model and a batch (model/training_step.h):
//
//   Trainer trainer(context.strategy(), net, optimizer,
//                   [](Net& net, const Sentences& batch) { return Loss{...}; });
//
// Every worker makes the same calls. The model and the optimizers that are given are those of this
// process's first replica and are trained in place. Starting values are worker 0's.
//
// The same bits: with options.deterministic (the default) the weights depend on data, seed, batch
// size and number of virtual shards, and not on how many workers or replicas did the work, nor on
// restarts from checkpoints in between (docs/determinism.md).
//
// Threads: from the thread that made it. Ownership: keeps what it is given.
// Failure: InvalidInput for options that cannot be, before any work; a non-finite loss is an Error
// that names the step; what the strategy's groups throw when a peer is lost. After a failure in
// fit() the Trainer is only good to destroy.
class Trainer {
 public:
  Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
          std::shared_ptr<torch::optim::Optimizer> optimizer, TrainingStep step,
          TrainerOptions options = {});
  // For optimizers that are not LibTorch's own, where a process has several replicas.
  Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model, MakeOptimizer make_optimizer,
          TrainingStep step, TrainerOptions options = {});
  // Several updates from every batch, one after the other, each by its own optimizer. Not in elastic
  // jobs and not with parameter servers (InvalidInput).
  Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model, std::vector<Phase> phases,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Goes on where the last fit() or the resumed checkpoint ended.
  FitResult fit(SourcePtr data, FitOptions options = {});

  // "loss" and the metrics over the whole data set: every sample counts once.
  Logs evaluate(SourcePtr data, std::int64_t batch_size = 0);
  // What metrics made of the last evaluate() that is no number: confusion_matrix().
  const std::map<std::string, torch::Tensor>& metric_tensors() const;

  // The model gets the averaged weights (TrainerOptions::ema), to be saved or trained further.
  void apply_average();

  // The model's outputs for all samples, in their order, on every worker (on the CPU).
  torch::Tensor predict(SourcePtr data, std::int64_t batch_size = 0);
  // What `prediction` makes of the batches: [](Net& net, const Sentences& batch) -> torch::Tensor.
  torch::Tensor predict(SourcePtr data, Prediction prediction, std::int64_t batch_size = 0);

  const Model& model() const;
  std::string weights() const;  // SHA-256 of all parameters and buffers

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::train
