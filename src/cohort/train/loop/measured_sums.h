#pragma once

#include <torch/torch.h>

#include <vector>

#include "cohort/train/model/loss.h"
#include "cohort/train/model/metric.h"
#include "cohort/train/model/sums.h"

namespace cohort::train {

// Measures losses and metrics of batches, and keeps what it has measured as it lies on the device:
// reading each when it is made would wait for the device every time. All is read at once, and added
// up on the host in its order, so that the bits are those of reading each.
// Thread-compatible. Failure: InvalidInput for a metric that gives something else than it says, or
// that needs what the step's Loss does not have.
class MeasuredSums {
 public:
  explicit MeasuredSums(std::vector<Metric> metrics);

  enum class What { loss, all };
  enum class CountsIn { each_item, first_item };  // the latter where the items are too many for it
  void clear(What what = What::all, CountsIn where = CountsIn::each_item);
  void begin_item() { items_.emplace_back(); }  // a shard, or a batch of an evaluation
  // A batch of the last item, which has so many samples.
  void add(const Loss& loss, std::int64_t samples);
  Sums none() const { return what_ == What::all ? none_ : none_of_loss_; }  // of an item's shape
  // The sums of each item, and none is left.
  std::vector<Sums> read();

 private:
  struct Item {
    std::vector<std::vector<torch::Tensor>> batches;  // values, then the weight
    std::vector<torch::Tensor> counts;                // of all its batches, a tensor a metric
    double samples = 0;
  };
  torch::Tensor sum_of(std::size_t metric, const Loss& loss, std::int64_t samples);
  torch::Tensor state_of(const Metric& metric, const Loss& loss) const;

  std::vector<Metric> metrics_;
  Sums none_, none_of_loss_;  // of the two shapes that items have
  std::vector<char> is_sum_;  // by metric: a sum over samples, as it says
  What what_ = What::all;
  CountsIn counts_in_ = CountsIn::each_item;
  std::vector<Item> items_;
};

}  // namespace cohort::train
