#pragma once

#include <cstdint>

#include "cohort/ps/rules/update_rule.h"

namespace cohort::ps {

// What a slice needs in a segment.
struct SliceShape {
  ElementType type = ElementType::f32;
  std::uint64_t elements = 0;
  int slots = 0;
};

}  // namespace cohort::ps
