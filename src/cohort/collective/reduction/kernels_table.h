#pragma once

#include "cohort/collective/reduction/kernel_functions.h"

// One table an instruction set, [DataType][ReduceOp]; column 1 (average) repeats column 0.
namespace cohort::collective {

inline constexpr std::size_t kDataTypes = 9;
inline constexpr std::size_t kReduceOps = 5;

extern const Kernels kernels_plain[kDataTypes][kReduceOps];
extern const Kernels kernels_avx2[kDataTypes][kReduceOps];
extern const Kernels kernels_avx512[kDataTypes][kReduceOps];

using CopyFunction = void (*)(void* to, const void* from, std::size_t bytes);
extern const CopyFunction copy_plain;
extern const CopyFunction copy_around_plain;
extern const CopyFunction copy_avx2;
extern const CopyFunction copy_around_avx2;
extern const CopyFunction copy_avx512;
extern const CopyFunction copy_around_avx512;

}  // namespace cohort::collective
