#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/train/data/tensor_tree.h"

namespace cohort::train {

// torch::stack() that names the sample whose shape or type differs: InvalidInput.
torch::Tensor stack_tensors(const std::vector<torch::Tensor>& tensors);

// One batch of samples: every tensor of the tree gets a first dimension, the sample. What holds no
// tensors (numbers, text) is the first sample's. No samples: an empty tree (default-constructed).
// InvalidInput where samples have different numbers of tensors, or of different shapes.
template <TensorTree B>
B stack_samples(const std::vector<B>& samples) {
  if (samples.empty()) return B();
  std::vector<std::vector<torch::Tensor>> rows;  // by tensor of the tree, by sample
  for_each_tensor(samples.front(), [&](const torch::Tensor&) { rows.emplace_back(); });
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    std::size_t next = 0;
    for_each_tensor(samples[sample], [&](const torch::Tensor& tensor) {
      if (next < rows.size()) rows[next].push_back(tensor);
      ++next;
    });
    if (next != rows.size())
      throw InvalidInput(fmt::format("sample {} of a batch has {} tensors, the first has {}",
                                     sample, next, rows.size()),
                         {.advice = "Give every sample the same tensors."});
  }
  std::size_t next = 0;
  return map_tensors(samples.front(),
                     [&](const torch::Tensor&) { return stack_tensors(rows[next++]); });
}

}  // namespace cohort::train
