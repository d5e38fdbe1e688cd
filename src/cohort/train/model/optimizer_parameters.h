#pragma once

#include <torch/torch.h>

#include <unordered_set>
#include <vector>

namespace cohort::train {

// What the optimizer updates: the parameters of all its groups, in their order.
std::vector<torch::Tensor> parameters_of(const torch::optim::Optimizer& optimizer);

// The same, to be looked up by Tensor::unsafeGetTensorImpl().
std::unordered_set<const void*> parameter_keys(const torch::optim::Optimizer& optimizer);

}  // namespace cohort::train
