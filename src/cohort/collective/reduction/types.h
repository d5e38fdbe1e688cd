#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::collective {

enum class DataType : std::uint8_t { f32, f64, f16, bf16, i8, u8, i32, i64, boolean };

// sum, average, minimum, maximum, product, element by element, over the ranks in tree order
// (docs/algorithms.md). On boolean, sum and maximum mean "or", product and minimum "and"; average
// is refused. Integer sums wrap; an integer average rounds towards zero. A NaN on any rank makes
// the element NaN.
enum class ReduceOp : std::uint8_t { sum, average, minimum, maximum, product };

std::size_t size_of(DataType type);
std::string_view to_string(DataType type);
std::string_view to_string(ReduceOp op);

// f16 and bf16 are stored by the caller as 16-bit patterns; these wrap one so that spans are typed.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::f32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::f64;
};
template <>
struct DataTypeOf<Half> {
  static constexpr DataType value = DataType::f16;
};
template <>
struct DataTypeOf<BFloat16> {
  static constexpr DataType value = DataType::bf16;
};
template <>
struct DataTypeOf<std::int8_t> {
  static constexpr DataType value = DataType::i8;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType value = DataType::u8;
};
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr DataType value = DataType::i32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr DataType value = DataType::i64;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::boolean;
};

}  // namespace cohort::collective
