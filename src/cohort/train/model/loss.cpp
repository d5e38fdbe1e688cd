#include "cohort/train/model/loss.h"

#include <cmath>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {

double Weight::checked(double number) {
  if (number >= 0 && std::isfinite(number)) return number;
  throw InvalidInput(fmt::format("the weight of a loss is {}", number),
                     {.advice = "Give what the mean is the mean of (samples, tokens): 0 or more."});
}

Weight::Weight(const torch::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor.numel() != 1)
    throw InvalidInput(fmt::format("the weight of a loss is a tensor of shape {}, not one number",
                                   shape_text(tensor.sizes().vec())),
                       {.advice = "Return the sum over the batch: mask.sum()."});
  if (tensor.is_cpu())
    number_ = checked(tensor.item<double>());
  else
    tensor_ = tensor.detach().reshape({});
}

}  // namespace cohort::train
