#pragma once

#include <torch/torch.h>

#include <span>

#include "cohort/collective/reduction/tree.h"

namespace cohort::parallel {

// One input of a sum: the values of a shard, or the sum over the shards under a node of the tree.
struct TreePart {
  collective::Subtree node;
  torch::Tensor values;
};

// into = the sum over the shards under `root`, times `scale`, by LibTorch's operations on the device
// of the tensors: the bits that collective::TreeReducer makes on the host. Sums of f16 and bf16 are
// made in f32. The parts ascend and cover `root`; all have the shape of `into`, which may be one of
// them.
void sum_in_tree(const torch::Tensor& into, collective::Subtree root,
                 std::span<const TreePart> parts, double scale = 1);

}  // namespace cohort::parallel
