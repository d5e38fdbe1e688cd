#include "cohort/capi/execution/request.h"

namespace cohort::capi {

std::byte* Request::allocate_result(std::size_t index, std::vector<std::int64_t> shape) {
  if (results.size() < signature->tensors.size()) results.resize(signature->tensors.size());
  Result& result = results[index];
  result.shape = std::move(shape);
  const TensorType type{signature->tensors[index].dtype, result.shape};
  const std::size_t bytes = type.bytes();
  if (allocate != nullptr) {
    result.memory = static_cast<std::byte*>(allocate(user, static_cast<std::int32_t>(index),
                                                     static_cast<std::int32_t>(result.shape.size()),
                                                     result.shape.data()));
    if (result.memory != nullptr || bytes == 0) return result.memory;
    failure = {COHORT_INTERNAL,
               fmt::format("{} '{}': the caller's function gave no memory for {} bytes",
                           to_string(signature->kind), signature->name, bytes)};
  }
  result.own = std::make_unique_for_overwrite<std::byte[]>(bytes == 0 ? 1 : bytes);
  result.memory = result.own.get();
  return result.memory;
}

}  // namespace cohort::capi
