#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cohort::train {

// Named numbers of a step or an epoch: "loss", "accuracy", "val_loss", "lr", ...
using Logs = std::map<std::string, double>;

// Something that is measured for every sample and averaged over all of them. `sum` returns the sum
// over the samples of a batch, as a tensor of one element; called without gradients.
struct Metric {
  std::string name;
  std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)> sum;
};

// The share of samples whose largest output is the target's class.
Metric accuracy();
// The share of samples whose target is among the k largest outputs.
Metric top_k_accuracy(int k);

// Sums over batches: losses, each times its weight, and metrics, with what they cover. Adding them
// up in a fixed order (shards, then steps; batches in evaluation) gives the same bits for any number
// of workers.
struct Sums {
  std::vector<double> values;   // the losses, one a phase, then the metrics in their order
  std::vector<double> weights;  // of the losses
  double samples = 0;           // of the metrics

  Sums() : Sums(0) {}
  explicit Sums(std::size_t metrics, std::size_t losses = 1)
      : values(losses + metrics), weights(losses) {}
  void add(const Sums& other);
  void set_loss(std::size_t i, const Sums& of);  // the loss of sums that have one
  void set_metrics(const Sums& of);              // all that is no loss
  Sums none() const { return Sums(values.size() - weights.size(), weights.size()); }
  double mean(std::size_t i) const;
  // "loss", "loss_<name>" of each phase that has a name, and the metrics' names, each with `prefix`
  // before it.
  Logs logs(const std::vector<Metric>& metrics, const std::string& prefix = "",
            const std::vector<std::string>& phases = {}) const;

  // All numbers in one row, for those that add them up: from another's of the same shape.
  std::vector<double> row() const;
  void set_row(const double* numbers);
  std::size_t width() const { return values.size() + weights.size() + 1; }
};

}  // namespace cohort::train
