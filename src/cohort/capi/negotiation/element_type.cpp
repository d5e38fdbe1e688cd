#include "cohort/capi/negotiation/element_type.h"

#include "cohort/base/error.h"

namespace cohort::capi {

namespace {

struct ElementType {
  std::size_t bytes;
  std::string_view name;
  std::optional<collective::DataType> reduced_as;
};

using collective::DataType;

constexpr ElementType kElementTypes[] = {
    {1, "u8", DataType::u8},
    {1, "i8", DataType::i8},
    {2, "u16", {}},
    {2, "i16", {}},
    {4, "i32", DataType::i32},
    {8, "i64", DataType::i64},
    {2, "f16", DataType::f16},
    {4, "f32", DataType::f32},
    {8, "f64", DataType::f64},
    {1, "bool", DataType::boolean},
    {2, "bf16", DataType::bf16},
    {4, "u32", {}},
    {8, "u64", {}},
    {8, "c64", {}},
    {16, "c128", {}},
};

const ElementType& look_up(std::int32_t dtype) {
  if (!is_element_type(dtype))
    throw InvalidInput(fmt::format("there is no element type number {}", dtype),
                       {.advice = "Use a value of cohort_dtype."});
  return kElementTypes[dtype];
}

}  // namespace

bool is_element_type(std::int32_t dtype) {
  return dtype >= 0 && static_cast<std::size_t>(dtype) < std::size(kElementTypes);
}
std::size_t bytes_of_element(std::int32_t dtype) { return look_up(dtype).bytes; }
std::string_view name_of_element(std::int32_t dtype) { return look_up(dtype).name; }
std::optional<DataType> reducible(std::int32_t dtype) { return look_up(dtype).reduced_as; }

}  // namespace cohort::capi
