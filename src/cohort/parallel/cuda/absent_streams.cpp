// In the place of device_streams.cpp and torch_arithmetic.cpp where LibTorch has no CUDA.
#include "cohort/base/error.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/cuda/torch_arithmetic.h"

namespace cohort::parallel {

namespace {

[[noreturn]] void refuse() {
  throw InvalidInput(
      "this build of Cohort has no CUDA",
      {.advice = "Build it with a LibTorch for CUDA (a torch package of PyPI), beside "
                 "which cuda_runtime_api.h and libcudart are found."});
}

}  // namespace

bool built_with_cuda() { return false; }
collective::DeviceStream current_stream(torch::Device device) {
  if (!device.is_cpu()) refuse();
  return nullptr;
}
c10::Stream stream_from_pool(torch::Device, bool) { refuse(); }
collective::DeviceStream handle_of(const c10::Stream&) { refuse(); }
bool is_recording(const c10::Stream&) { return false; }
std::shared_ptr<collective::DeviceArithmetic> make_torch_arithmetic(torch::Device) { refuse(); }

}  // namespace cohort::parallel
