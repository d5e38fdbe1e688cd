#pragma once

#include <cstddef>

namespace cohort::ps {

// Square roots in place, by the function that LibTorch takes them with. LibTorch's mathematical
// library (MKL) does not round them correctly (errors up to 0.75 units in the last place, against
// 0.5 of the processor's instruction), so only itself gives its bits. False, and nothing done,
// where the program has no such function: it is not linked against LibTorch, or against one without
// MKL, which then takes the instruction itself. Pure, thread-safe.
bool torch_square_roots(float* x, std::size_t n);
bool torch_square_roots(double* x, std::size_t n);

}  // namespace cohort::ps
