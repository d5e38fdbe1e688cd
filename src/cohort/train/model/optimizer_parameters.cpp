#include "cohort/train/model/optimizer_parameters.h"

namespace cohort::train {

std::vector<torch::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> all;
  for (const auto& group : optimizer.param_groups())
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

std::unordered_set<const void*> parameter_keys(const torch::optim::Optimizer& optimizer) {
  std::unordered_set<const void*> keys;
  for (const torch::Tensor& parameter : parameters_of(optimizer))
    keys.insert(parameter.unsafeGetTensorImpl());
  return keys;
}

}  // namespace cohort::train
