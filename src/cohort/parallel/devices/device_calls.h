#pragma once

#include <torch/torch.h>

#include "cohort/collective/group.h"

// Collectives on tensors on GPUs, where the group has a device group. They are put on the current
// stream, and the host waits for nothing.
namespace cohort::parallel {

// Whether what is on `tensor`'s device goes from GPU to GPU.
bool has_device_group(collective::Group& group, const torch::Tensor& tensor);

// In place; `tensor` is contiguous. Sums and averages of floating-point numbers have the bits of the
// group's own calls; products are made in the order that the device group likes.
void all_reduce_on_device(collective::Group& group, const torch::Tensor& tensor,
                          const collective::ReduceOptions& options);

}  // namespace cohort::parallel
