#pragma once

#include <torch/torch.h>

#include <optional>
#include <span>
#include <vector>

#include "cohort/train/model/loss.h"
#include "cohort/train/model/metric.h"
#include "cohort/train/model/sums.h"

namespace cohort::train {

// What was measured of a step or an evaluation and has not been read: one row of numbers on the
// device, and what they are. Made on the device's stream; reading waits for it. A value; copies
// share the row, which does not change.
struct Measured {
  // Of one tensor: the next `count` numbers of the row, or a tensor on the host.
  struct Numbers {
    std::int64_t count = 0;
    torch::Tensor here;  // undefined: in the row
  };
  struct Item {
    std::vector<std::vector<Numbers>> batches;  // values, then the weight
    std::vector<Numbers> counts;                // of all its batches, a tensor a metric
    double samples = 0;
  };
  std::vector<Item> items;
  torch::Tensor row;      // f64, one dimension; undefined where nothing is on a device
  Sums none;              // of an item's shape
  bool has_norm = false;  // the row's last number is the norm of the gradient

  void add_norm(const torch::Tensor& norm);
  std::size_t row_size() const { return row.defined() ? static_cast<std::size_t>(row.numel()) : 0; }

  // The sum of the losses' weights, where the host knows all of them.
  std::optional<double> weight() const;
  // The sums of each item. `numbers`: those of the row, on the host.
  std::vector<Sums> read(std::span<const double> numbers) const;
  std::vector<Sums> read() const;  // waits for the device
};

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
  // Until clear(). False: nothing may wait for the device; a metric is taken for the sum that it says
  // it is.
  void set_may_wait(bool may) { may_wait_ = may; }
  void begin_item() { items_.emplace_back(); }  // a shard, or a batch of an evaluation
  // A batch of the last item, which has so many samples.
  void add(const Loss& loss, std::int64_t samples);
  Sums none() const { return what_ == What::all ? none_ : none_of_loss_; }  // of an item's shape
  // All that was measured, and nothing is left: as it lies on the device, or read.
  Measured take();
  std::vector<Sums> read() { return take().read(); }

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
  bool may_wait_ = true;
  What what_ = What::all;
  CountsIn counts_in_ = CountsIn::each_item;
  std::vector<Item> items_;
};

}  // namespace cohort::train
