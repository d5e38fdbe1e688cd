#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort::ps {

// Gradients of some rows: `values` has the table's dimension of floats for each key. As bytes:
//   count u64 | keys u64[count] | values f32[count * dimension]
// A value.
struct RowGradients {
  std::vector<std::uint64_t> keys;
  std::vector<float> values;

  std::string encode() const;
  // Throws ProtocolError when the sizes do not fit.
  static RowGradients decode(std::span<const std::byte> bytes, int dimension);
};

// Sums the gradients of several workers: rows in ascending order of their keys, each row's
// contributions in the order given (of one contribution: in its own order), then scaled. The same
// input gives the same bits; a scale of 1 changes none. Pure, thread-safe.
RowGradients merge(std::span<const RowGradients* const> contributions, int dimension, double scale);

}  // namespace cohort::ps
