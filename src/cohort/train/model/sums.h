#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "cohort/train/model/metric.h"

namespace cohort::train {

// Losses and metrics of shards, steps or batches, added up, with what they cover. Losses (each times
// its weight) and the sums of metrics are to be added in a fixed order (shards, then steps; batches
// in evaluation), which gives the same bits for any number of workers; the counts of metrics are
// whole numbers and have no order. A value.
struct Sums {
  std::vector<double> values;   // the losses, one a phase, then the sums of metrics in their order
  std::vector<double> weights;  // of the losses
  double samples = 0;
  std::vector<double> counts;  // of metrics in their order

  Sums() : Sums(std::vector<Metric>()) {}
  explicit Sums(const std::vector<Metric>& metrics, std::size_t losses = 1);
  void add(const Sums& other);
  void set_loss(std::size_t i, const Sums& of);  // the loss of sums that have one
  void set_metrics(const Sums& of);              // all that is no loss
  Sums none() const;                             // of the same shape
  bool has_shape_of(const Sums& other) const;
  double loss(std::size_t phase = 0) const {
    return weights[phase] > 0 ? values[phase] / weights[phase] : 0;
  }

  // "loss", "loss_<name>" of each phase that has a name, and the metrics' values, each with `prefix`
  // before its name.
  Logs logs(const std::vector<Metric>& metrics, const std::string& prefix = "",
            const std::vector<std::string>& phases = {}) const;
  // Of the metrics that have one: compute_tensor(), by the metric's name.
  std::map<std::string, torch::Tensor> tensors(const std::vector<Metric>& metrics,
                                               const std::string& prefix = "") const;

  // All numbers in one row, those that have no order at its end, for those that add them up; and
  // from another's of the same shape.
  std::vector<double> row() const;
  void set_row(const double* numbers);
  std::size_t width() const { return ordered_width() + counts.size(); }
  std::size_t ordered_width() const { return values.size() + weights.size() + 1; }
};

}  // namespace cohort::train
