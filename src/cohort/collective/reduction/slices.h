#pragma once

#include <algorithm>
#include <cstddef>

namespace cohort::collective {

struct Range {
  std::size_t from = 0;
  std::size_t count = 0;
};

// The `index`-th of `parts` slices of `elements`: whole cache lines, so that no line has two
// writers; the last ones may be short or empty.
inline Range slice_of(std::size_t elements, std::size_t element_bytes, int index, int parts) {
  const std::size_t line = 64 / element_bytes;
  const std::size_t lines = (elements + line - 1) / line;
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t each = (lines + n - 1) / n * line;
  const std::size_t from = std::min(elements, each * static_cast<std::size_t>(index));
  return {from, std::min(each, elements - from)};
}

}  // namespace cohort::collective
