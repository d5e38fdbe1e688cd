#include "cohort/parallel/cuda/torch_arithmetic.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

using collective::DataType;
using collective::DeviceStream;
using collective::ReduceOp;

torch::ScalarType scalar_type_of(DataType type) {
  switch (type) {
    case DataType::f32:
      return torch::kFloat;
    case DataType::f64:
      return torch::kDouble;
    case DataType::f16:
      return torch::kHalf;
    case DataType::bf16:
      return torch::kBFloat16;
    case DataType::i8:
      return torch::kChar;
    case DataType::u8:
      return torch::kByte;
    case DataType::i32:
      return torch::kInt;
    case DataType::i64:
      return torch::kLong;
    case DataType::boolean:
      return torch::kBool;
  }
  throw InvalidInput(fmt::format("elements of type {} cannot be reduced", to_string(type)));
}

class TorchArithmetic final : public collective::DeviceArithmetic {
 public:
  explicit TorchArithmetic(torch::Device device) : device_(device) {}

  void combine(void* into, const void* a, const void* b, std::size_t count, DataType dtype,
               ReduceOp op, DeviceStream stream) override {
    const torch::NoGradGuard no_grad;
    const c10::cuda::CUDAStreamGuard guard(stream_of(stream));
    torch::Tensor result = tensor(into, count, dtype);
    const torch::Tensor left = tensor(a, count, dtype), right = tensor(b, count, dtype);
    switch (op) {
      case ReduceOp::sum:
        torch::add_out(result, left, right);
        return;
      case ReduceOp::product:
        torch::mul_out(result, left, right);
        return;
      case ReduceOp::minimum:
        torch::minimum_out(result, left, right);
        return;
      case ReduceOp::maximum:
        torch::maximum_out(result, left, right);
        return;
      case ReduceOp::average:
        break;
    }
    COHORT_CHECK(false, "an average is a sum that is divided");
  }

  void divide(void* values, std::size_t count, DataType dtype, int divisor,
              DeviceStream stream) override {
    const torch::NoGradGuard no_grad;
    const c10::cuda::CUDAStreamGuard guard(stream_of(stream));
    torch::Tensor all = tensor(values, count, dtype);
    if (all.is_floating_point())
      all.div_(divisor);
    else
      all.div_(divisor, "trunc");
  }

 private:
  torch::Tensor tensor(const void* data, std::size_t count, DataType dtype) const {
    const std::int64_t size = static_cast<std::int64_t>(count);
    // Its device is not asked for: memory of a peer's GPU is worked on from here.
    return at::for_blob(const_cast<void*>(data), size)
        .options(torch::TensorOptions().dtype(scalar_type_of(dtype)).device(device_))
        .target_device(device_)
        .make_tensor();
  }
  c10::cuda::CUDAStream stream_of(DeviceStream stream) const {
    return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device_.index());
  }

  torch::Device device_;
};

}  // namespace

std::shared_ptr<collective::DeviceArithmetic> make_torch_arithmetic(torch::Device device) {
  return std::make_shared<TorchArithmetic>(device);
}

}  // namespace cohort::parallel
