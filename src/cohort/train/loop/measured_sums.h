#pragma once

#include <torch/torch.h>

#include <vector>

#include "cohort/train/model/metric.h"

namespace cohort::train {

// Losses and metrics of batches, as they lie on the device: reading each when it is made would wait
// for the device every time. They are read all at once, and added up on the host in their order, so
// that the bits are those of reading each.
// Thread-compatible.
class MeasuredSums {
 public:
  explicit MeasuredSums(std::size_t metrics) : metrics_(metrics) {}

  void clear() { items_.clear(); }
  void begin_item() { items_.emplace_back(); }  // a shard, or a batch of an evaluation
  // A batch of the last item: its mean loss, and the sum of each metric; one element each.
  void add(double samples, const torch::Tensor& loss, std::vector<torch::Tensor> sums);
  // The sums of each item, and none is left.
  std::vector<Sums> read();

 private:
  struct BatchValues {
    double samples;
    std::vector<torch::Tensor> values;  // loss first
  };
  std::size_t metrics_;
  std::vector<std::vector<BatchValues>> items_;
};

}  // namespace cohort::train
