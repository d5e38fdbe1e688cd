#pragma once

#include <torch/torch.h>

#include <string>

#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::train {

// A model's tensors as the parts of `parallel` take them.
inline parallel::NamedTensors named(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  parallel::NamedTensors result;
  for (const auto& item : tensors) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace cohort::train
