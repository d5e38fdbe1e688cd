#pragma once

#include <cstddef>
#include <vector>

#include "cohort/collective/reduction/types.h"

// The order of addition of docs/algorithms.md once more, one element at a time and without any of
// the library's code: what the suite compares with, bit for bit.
namespace cohort::collective::testing {

struct ReferenceOptions {
  ReduceOp op = ReduceOp::sum;
  double pre_scale = 1;
  double post_scale = 1;
};

using Bytes = std::vector<std::byte>;

// Deterministic contributions that make the order of addition visible in the result.
Bytes contribution(DataType type, std::size_t count, int rank);

// inputs[r] is rank r's.
Bytes reference_reduce(DataType type, const std::vector<Bytes>& inputs,
                       const ReferenceOptions& options);

// The index of the first byte that differs, or -1.
std::ptrdiff_t first_difference(const Bytes& a, const Bytes& b);

}  // namespace cohort::collective::testing
