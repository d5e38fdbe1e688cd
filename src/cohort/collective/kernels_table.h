#pragma once

#include "cohort/collective/kernels.h"

// One table an instruction set, [DataType][ReduceOp]; column 1 (average) repeats column 0.
namespace cohort::collective {

inline constexpr std::size_t kDataTypes = 9;
inline constexpr std::size_t kReduceOps = 5;

extern const Kernels kernels_plain[kDataTypes][kReduceOps];
extern const Kernels kernels_avx2[kDataTypes][kReduceOps];
extern const Kernels kernels_avx512[kDataTypes][kReduceOps];

}  // namespace cohort::collective
