#pragma once

#include <torch/torch.h>

#include <memory>

#include "cohort/collective/device/device_arithmetic.h"

namespace cohort::parallel {

// By LibTorch's kernels, on the GPU `device`. Throws InvalidInput in a build without CUDA.
std::shared_ptr<collective::DeviceArithmetic> make_torch_arithmetic(torch::Device device);

}  // namespace cohort::parallel
