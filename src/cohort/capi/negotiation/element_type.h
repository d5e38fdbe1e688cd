#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cohort/collective/reduction/types.h"

namespace cohort::capi {

// The element types of requests: cohort_dtype, by its numbers. Pure functions.
bool is_element_type(std::int32_t dtype);
std::size_t bytes_of_element(std::int32_t dtype);
std::string_view name_of_element(std::int32_t dtype);  // "f32"
// The type in which a Group reduces; nothing for types that are only moved.
std::optional<collective::DataType> reducible(std::int32_t dtype);

}  // namespace cohort::capi
