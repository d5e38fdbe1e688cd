#pragma once

#include <torch/torch.h>

#include <map>
#include <vector>

#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/bucket.h"

namespace cohort::parallel {

// One rank's own part of the sum over shards: takes each parameter's gradient of one shard after
// the other, and leaves in the bucket the partials that the plan asks for. Nothing is copied that
// can be kept: a gradient that stands for itself stays the tensor that autograd made, and the last
// addition goes straight into the bucket. Partials that a bucket keeps (Bucket::keeps) go there as
// the tensors in which they were added up.
//
// Threads: confined to one at a time. Ownership: `plan` must outlive it.
class LocalSum {
 public:
  LocalSum(const collective::ShardPlan& plan, std::size_t parameters);

  // `gradient` of the own shard number `step` (from 0): on the CPU, in the bucket's dtype, strided
  // like the bucket's view of `entry`. Undefined: zeros. A gradient may be that view itself.
  void add(int step, int parameter, torch::Tensor gradient, Bucket& bucket, std::size_t entry);

 private:
  const collective::TreeReducer& reducer(int step, torch::ScalarType dtype);

  const collective::ShardPlan& plan_;
  std::vector<std::vector<torch::Tensor>> stacks_;  // by parameter
  std::map<std::pair<int, torch::ScalarType>, collective::TreeReducer> reducers_;
};

}  // namespace cohort::parallel
