#pragma once

#include <cstddef>
#include <cstdint>

#include "cohort/ps/rules/update_rule.h"
#include "cohort/ps/wire/messages.h"

// Numbers as they travel: f32 may be rounded to 16 bits on the way, f64 never is. Pure functions.
namespace cohort::ps {

std::size_t wire_bytes(ElementType type, WireType wire, std::uint64_t elements);
void to_wire(const std::byte* from, ElementType type, WireType wire, std::uint64_t elements,
             std::byte* to);
void from_wire(const std::byte* from, ElementType type, WireType wire, std::uint64_t elements,
               std::byte* to);

}  // namespace cohort::ps
