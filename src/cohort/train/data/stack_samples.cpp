#include "cohort/train/data/stack_samples.h"

#include <c10/core/ScalarType.h>

#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {

torch::Tensor stack_tensors(const std::vector<torch::Tensor>& tensors) {
  const auto describe_one = [](const torch::Tensor& tensor) {
    return fmt::format("{} {}", c10::toString(tensor.scalar_type()),
                       shape_text(tensor.sizes().vec()));
  };
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].sizes() != tensors[0].sizes() ||
        tensors[i].scalar_type() != tensors[0].scalar_type())
      throw InvalidInput(fmt::format("sample {} of a batch has a tensor {}, the first has {}", i,
                                     describe_one(tensors[i]), describe_one(tensors[0])),
                         {.advice = "Pad or crop samples to one shape, of one type."});
  return torch::stack(tensors);
}

}  // namespace cohort::train
