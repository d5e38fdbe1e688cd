#include "cohort/parallel/cuda/device_streams.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

namespace cohort::parallel {

bool built_with_cuda() { return true; }

collective::DeviceStream current_stream(torch::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

c10::Stream stream_from_pool(torch::Device device, bool high_priority) {
  return c10::cuda::getStreamFromPool(high_priority, device.index()).unwrap();
}

collective::DeviceStream handle_of(const c10::Stream& stream) {
  return c10::cuda::CUDAStream(stream).stream();
}

bool is_recording(const c10::Stream& stream) {
  if (stream.device_type() != torch::kCUDA) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(c10::cuda::CUDAStream(stream).stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace cohort::parallel
