#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace cohort::parallel {

// Tensors with the names that errors and files give them, in the order of the model.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

}  // namespace cohort::parallel
