#include "cohort/collective/reduction/types.h"

#include "cohort/base/error.h"

namespace cohort::collective {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::f64:
    case DataType::i64:
      return 8;
    case DataType::f32:
    case DataType::i32:
      return 4;
    case DataType::f16:
    case DataType::bf16:
      return 2;
    case DataType::i8:
    case DataType::u8:
    case DataType::boolean:
      return 1;
  }
  throw InvalidInput(fmt::format("there is no data type number {}", static_cast<int>(type)));
}

std::string_view to_string(DataType type) {
  constexpr std::string_view kNames[] = {"f32", "f64", "f16", "bf16",   "i8",
                                         "u8",  "i32", "i64", "boolean"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view to_string(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "average", "minimum", "maximum", "product"};
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace cohort::collective
