#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/strategies/strategy.h"
#include "cohort/train/model/learning_rate.h"
#include "cohort/train/model/metric.h"
#include "cohort/train/sync/agreement.h"

namespace cohort::train {

struct Checkpoint;

// What fit() shows to callbacks, and what they may ask for. Lives as long as the fit() that made
// it; confined to the thread that calls the callbacks.
class FitState {
 public:
  // Where training stands. Epochs count from 0, the steps are those done.
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t step = 0;           // of the whole training, restarts included
  std::int64_t step_in_epoch = 0;  // of this epoch
  std::int64_t steps_per_epoch = 0;
  std::int64_t samples = 0;  // in the training data
  std::int64_t batch_size = 0;
  int shards = 1;
  std::int64_t max_steps = 0;        // of the whole training; 0: no limit
  std::int64_t samples_trained = 0;  // since fit() began
  bool fast_dev_run = false;         // callbacks that write files should not
  // Of an elastic job: the number of the view, and why it differs from the one before.
  std::uint64_t view = 0;
  std::string view_reason;
  bool step_is_redone = false;  // the one under way was given up when the view changed
  bool joined = false;          // this worker came into a training that others had begun

  // Loss and metrics of the step or epoch that has just ended, and what callbacks add.
  Logs logs;
  Logs running;  // loss and metrics of the epoch so far
  // What metrics make that is no number (confusion_matrix), by name: of the epoch at its end, and of
  // the last validation, whose names begin with val_.
  std::map<std::string, torch::Tensor> tensors;
  std::string phase;               // in on_before_update: which of several is updated
  std::string weights;             // at the end: SHA-256 of all parameters and buffers
  double samples_per_second = 0;   // since the epoch began
  double communication_share = 0;  // of the time since fit() began, spent waiting for other workers
  // Spent waiting for batches of this worker: of the time since the epoch began, and in all.
  double data_share = 0;
  std::chrono::nanoseconds waited_for_data{0};
  std::chrono::steady_clock::duration elapsed{};  // since fit() began

  // How far training is, in epochs: 1.5 is half-way through the second.
  double epochs_done() const {
    return static_cast<double>(epoch) +
           static_cast<double>(step_in_epoch) / static_cast<double>(steps_per_epoch);
  }

  parallel::Strategy& strategy() const { return *strategy_; }
  bool is_chief() const { return strategy_->is_chief(); }
  collective::Group& workers() const { return *workers_; }  // of the worker processes
  torch::nn::Module& model() const { return *module_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  LearningRate& learning_rate() const { return *rate_; }
  parallel::GradientSync& gradients() const { return *gradients_; }

  // Whether logs[name] is fit()'s own, measured over all workers.
  bool is_exact(const std::string& name) const { return exact_.contains(name); }

  // Whether logs[name] is measured by worker 0 alone, and this is another (validation with
  // parameter servers).
  bool is_elsewhere(const std::string& name) const {
    return validated_elsewhere_ && name.starts_with("val_") && !logs.contains(name);
  }

  // Ends training after this event, on every worker (with parameter servers after one step more).
  // The first reason counts.
  void stop(const std::string& why);
  // The same, for a training that is not at its end: one that is resumed goes on.
  void interrupt(const std::string& why);
  bool stopping() const { return !requests_.stop.empty(); }
  const std::string& stop_reason() const { return requests_.stop; }
  // Gives every replica worker 0's parameters, buffers and optimizer state, after this event.
  void broadcast_variables() { requests_.broadcast = true; }

  // All that a checkpoint holds, as of now; tensors share the model's memory.
  Checkpoint checkpoint() const;

 private:
  friend class FitLoop;
  parallel::Strategy* strategy_ = nullptr;
  collective::Group* workers_ = nullptr;
  torch::nn::Module* module_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  LearningRate* rate_ = nullptr;
  parallel::GradientSync* gradients_ = nullptr;
  std::function<Checkpoint()> make_checkpoint_;
  CallbackRequests requests_;
  bool validated_elsewhere_ = false;
  std::set<std::string> exact_;
};

}  // namespace cohort::train
