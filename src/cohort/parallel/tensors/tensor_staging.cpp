#include "cohort/parallel/tensors/tensor_staging.h"

#include "cohort/base/error.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

bool has_element_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat:
    case torch::kDouble:
    case torch::kHalf:
    case torch::kBFloat16:
    case torch::kChar:
    case torch::kByte:
    case torch::kInt:
    case torch::kLong:
    case torch::kBool:
      return true;
    default:
      return false;
  }
}

const torch::Tensor& checked(const torch::Tensor& tensor) {
  if (!tensor.defined())
    throw InvalidInput("a tensor given to a collective is undefined",
                       {.advice = "Give every rank a tensor, with no elements if need be."});
  if (tensor.layout() != torch::kStrided)
    throw InvalidInput("a tensor given to a collective is sparse", {.advice = "Make it dense."});
  return tensor;
}

collective::DataType reduced_type_of(torch::ScalarType type) {
  if (!has_element_type(type))
    throw InvalidInput(
        fmt::format("tensors of type {} cannot be reduced", torch::toString(type)),
        {.advice = "Convert to float, double, half, bfloat16, int8, uint8, int32, int64 or bool."});
  return data_type_of(type);
}

}  // namespace

collective::DataType moving_type_of(torch::ScalarType type) {
  return has_element_type(type) ? data_type_of(type) : collective::DataType::u8;
}

std::size_t moving_factor_of(torch::ScalarType type) {
  return has_element_type(type) ? 1 : torch::elementSize(type);
}

StagedTensor::StagedTensor(const torch::Tensor& tensor, bool reduced)
    : target_(checked(tensor).detach()),
      host_(target_.to(torch::kCPU).contiguous()),
      dtype_(reduced ? reduced_type_of(tensor.scalar_type())
                     : moving_type_of(tensor.scalar_type())) {}

std::size_t StagedTensor::count() const {
  return static_cast<std::size_t>(host_.nbytes()) / collective::size_of(dtype_);
}

void StagedTensor::finish() {
  if (host_.is_same(target_) || host_.data_ptr() == target_.data_ptr()) return;
  const torch::NoGradGuard no_grad;
  target_.copy_(host_);
}

void check_reducible(const torch::Tensor& tensor) {
  reduced_type_of(checked(tensor).scalar_type());
}

torch::Tensor host_rows(const torch::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  if (shape.empty()) shape.push_back(1);
  shape[0] = rows;
  return torch::empty(shape, torch::TensorOptions().dtype(like.scalar_type()));
}

}  // namespace cohort::parallel
