#pragma once

#include <torch/torch.h>

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/train/model/loss.h"

namespace cohort::train {

// Named numbers of a step or an epoch: "loss", "accuracy", "val_loss", "lr", ...
using Logs = std::map<std::string, double>;

// A metric whose value follows from numbers that are added up over batches, shards, steps and
// workers. One's own takes what a batch adds, and what the total means:
//
//   struct Specificity : cohort::StatefulMetric {
//     Specificity() : StatefulMetric("specificity", State::counts, 2) {}
//     torch::Tensor measure(const cohort::Loss& batch) const override {
//       const auto negative = batch.target.eq(0);
//       return torch::stack({(negative & batch.output.argmax(1).eq(0)).sum(), negative.sum()});
//     }
//     cohort::Logs compute(std::span<const double> total) const override {
//       return {{"", total[1] > 0 ? total[0] / total[1] : 0}};
//     }
//   };
//   TrainerOptions{.metrics = {std::make_shared<Specificity>()}}
//
// Threads: measure() is called by all replicas of a process at once; keep nothing in members.
// Failure: an exception ends the call of fit() or evaluate().
class StatefulMetric {
 public:
  // sums: numbers of any kind, few of them: each shard's travel and are added in the order of the
  // shards, so that rounding is the same everywhere. counts: whole numbers below 2^53, any order of
  // which gives the same sum: added up where they arise, so that a state may be large.
  enum class State { sums, counts };

  virtual ~StatefulMetric() = default;

  const std::string& name() const { return name_; }
  State state() const { return state_; }
  std::size_t size() const { return size_; }

  // What a batch adds: a tensor of size() elements, of whole numbers where they are counts. It stays
  // on the device, so do not read it here. Called without gradients, in training and in evaluations.
  // Of `batch` the weight is set; output, target and values are what the training step gave.
  virtual torch::Tensor measure(const Loss& batch) const = 0;

  // The values of a total, by what comes after the metric's name: {"", 0.5} is logged as "name",
  // {"cat", 0.5} as "name_cat". Always the same names, also for a total of zeros.
  virtual Logs compute(std::span<const double> total) const = 0;

  // For what is no number (a matrix, a curve): on the CPU; undefined where there is nothing.
  virtual torch::Tensor compute_tensor(std::span<const double> /*total*/) const { return {}; }

 protected:
  StatefulMetric(std::string name, State state, std::size_t size);

 private:
  std::string name_;
  State state_;
  std::size_t size_;
};

// InvalidInput, which says what to set, where the step gives no output or no target.
void expect_output_and_target(const std::string& metric, const Loss& batch);

// What a Trainer measures beside the loss, with the name that it has in logs. Either the sum of
// something over the samples of a batch, a tensor of one element, of which the mean is logged:
//
//   Metric{"error", [](auto& output, auto& target) { return (output - target).abs().sum(); }}
//
// or a metric with a state. A value type; copies share the state's description.
struct Metric {
  using Sum =
      std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

  Metric(std::string name_of_it, Sum sum_of_it)
      : name(std::move(name_of_it)), sum(std::move(sum_of_it)) {}
  // Implicit, so that a list of metrics takes both. InvalidInput for null.
  template <std::derived_from<StatefulMetric> M>
  Metric(std::shared_ptr<M> metric)
      : Metric(std::shared_ptr<const StatefulMetric>(metric)) {}  // NOLINT
  Metric(std::shared_ptr<const StatefulMetric> metric);           // NOLINT

  std::string name;
  Sum sum;  // or
  std::shared_ptr<const StatefulMetric> stateful;

  bool keeps_counts() const {
    return stateful && stateful->state() == StatefulMetric::State::counts;
  }
  // Of a value that compute() gives under `suffix`, and of all of them.
  std::string log_name(const std::string& suffix) const;
  std::vector<std::string> log_names() const;
};

}  // namespace cohort::train
