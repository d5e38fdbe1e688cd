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

// Sums over samples: loss and metrics, with how many samples they cover. Adding them up in a fixed
// order (shards, then steps; batches in evaluation) gives the same bits for any number of workers.
struct Sums {
  std::vector<double> values;  // loss first, then the metrics in their order
  double samples = 0;

  Sums() : Sums(0) {}
  explicit Sums(std::size_t metrics) : values(metrics + 1) {}
  void add(const Sums& other);
  double mean(std::size_t i) const { return samples > 0 ? values[i] / samples : 0; }
  // "loss" and the metrics' names, each with `prefix` before it.
  Logs logs(const std::vector<Metric>& metrics, const std::string& prefix = "") const;
};

}  // namespace cohort::train
