#include "cohort/parallel/element_types.h"

#include "cohort/base/error.h"

namespace cohort::parallel {

collective::DataType data_type_of(torch::ScalarType type) {
  using collective::DataType;
  switch (type) {
    case torch::kFloat:
      return DataType::f32;
    case torch::kDouble:
      return DataType::f64;
    case torch::kHalf:
      return DataType::f16;
    case torch::kBFloat16:
      return DataType::bf16;
    case torch::kChar:
      return DataType::i8;
    case torch::kByte:
      return DataType::u8;
    case torch::kInt:
      return DataType::i32;
    case torch::kLong:
      return DataType::i64;
    case torch::kBool:
      return DataType::boolean;
    default:
      throw InvalidInput(
          fmt::format("tensors of type {} cannot be sent", torch::toString(type)),
          {.advice = "Convert to a floating-point, integer or boolean type of at most 64 bits."});
  }
}

torch::ScalarType accumulator_of(torch::ScalarType type) {
  return type == torch::kHalf || type == torch::kBFloat16 ? torch::kFloat : type;
}

}  // namespace cohort::parallel
