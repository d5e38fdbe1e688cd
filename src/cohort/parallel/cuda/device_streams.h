#pragma once

#include <torch/torch.h>

#include "cohort/collective/device/device_group.h"

// The few things of CUDA that LibTorch's device-independent interface does not have. In a build whose
// LibTorch has no CUDA they throw InvalidInput.
namespace cohort::parallel {

// Whether this build can compute on GPUs at all.
bool built_with_cuda();

// The stream on which LibTorch computes on `device` on this thread, as the driver knows it; null on
// the CPU, which has none.
collective::DeviceStream current_stream(torch::Device device);

// A stream of LibTorch's pool for `device`, and the driver's name of a stream.
c10::Stream stream_from_pool(torch::Device device, bool high_priority = false);
collective::DeviceStream handle_of(const c10::Stream& stream);

// Whether what is put on the stream is recorded into a CUDA graph.
bool is_recording(const c10::Stream& stream);

}  // namespace cohort::parallel
