#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace cohort::train {

// A new optimizer of the same class, options and parameter groups, with to[i] in the place of
// from[i], or nothing where to[i] is undefined, and no steps made: what a replica of a model needs,
// or a worker that updates parts of it. InvalidInput for an unknown class
// (give a factory for it instead), or a parameter that is not in `from`.
std::unique_ptr<torch::optim::Optimizer> clone_optimizer(const torch::optim::Optimizer& optimizer,
                                                         const std::vector<torch::Tensor>& from,
                                                         const std::vector<torch::Tensor>& to);

}  // namespace cohort::train
