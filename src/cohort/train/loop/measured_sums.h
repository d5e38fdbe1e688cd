#pragma once

#include <torch/torch.h>

#include <utility>
#include <vector>

#include "cohort/train/model/loss.h"
#include "cohort/train/model/metric.h"

namespace cohort::train {

// Losses and metrics of batches, as they lie on the device: reading each when it is made would wait
// for the device every time. They are read all at once, and added up on the host in their order, so
// that the bits are those of reading each.
// Thread-compatible.
class MeasuredSums {
 public:
  explicit MeasuredSums(std::size_t metrics) : metrics_(metrics) {}

  struct Batch {
    double samples = 0;
    torch::Tensor loss;  // the mean
    Weight weight;
    std::vector<torch::Tensor> sums;  // of each metric
  };

  void clear() { items_.clear(); }
  void begin_item() { items_.emplace_back(); }  // a shard, or a batch of an evaluation
  // A batch of the last item; tensors of one element each.
  void add(Batch batch) { items_.back().push_back(std::move(batch)); }
  // The sums of each item, and none is left. InvalidInput for a weight that cannot be.
  std::vector<Sums> read();

 private:
  std::size_t metrics_;
  std::vector<std::vector<Batch>> items_;
};

}  // namespace cohort::train
