#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cohort/parallel/sharding/partition.h"

namespace cohort::parallel {

// Where a rank keeps its slices of the gradients of cut parameters (ZeRO-2): the sum of a gradient
// over all ranks comes here, and the rest of it nowhere. Parameters of a type whose sums are of
// another one (f16, bf16) are left out: their gradients stay whole.
//
// Threads: immutable but for the slices' values, which belong to the communication thread while
// gradients are summed. Ownership: keeps the memory of the slices.
class GradientShares {
 public:
  GradientShares(const std::vector<torch::Tensor>& parameters, const Partition& partition,
                 int rank);

  struct Share {
    std::vector<std::size_t> counts;  // elements by rank, one after the other
    torch::Tensor own;                // this rank's, as one dimension
  };
  // Null: its gradient is not divided.
  const Share* find(const torch::Tensor& parameter) const;

 private:
  std::unordered_map<const void*, Share> shares_;
};

}  // namespace cohort::parallel
