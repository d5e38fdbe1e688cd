#pragma once

#include <cstddef>
#include <vector>

#include "cohort/collective/nccl/nccl_library.h"

namespace cohort::collective::nccl::testing {

std::size_t bytes_of(Type type);

// out[i] = op of all inputs[r][i], in the order of ranks. Halves are added as doubles: exact for the
// small whole numbers that tests use.
void reduce(const std::vector<const std::byte*>& inputs, std::byte* out, std::size_t count,
            Type type, Op op);

}  // namespace cohort::collective::nccl::testing
