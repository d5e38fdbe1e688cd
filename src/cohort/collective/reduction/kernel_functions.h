#pragma once

#include <cstddef>

namespace cohort::collective {

// The loops under every reduction, for one element type and one operation. `n` counts elements;
// accumulators are arrays of the accumulator type (docs/algorithms.md). Outputs may be the same
// memory as inputs, element for element. Pure, thread-safe.
struct Kernels {
  std::size_t accumulator_bytes;  // of one element

  void (*load)(void* acc, const void* x, std::size_t n);                 // acc = x
  void (*pair)(void* acc, const void* x, const void* y, std::size_t n);  // acc = x op y
  void (*join)(void* acc, const void* other_acc, std::size_t n);         // acc = acc op other
  void (*join_leaf)(void* acc, const void* x, std::size_t n);            // acc = acc op x
  void (*scale)(void* acc, double factor, std::size_t n);
  void (*divide)(void* acc, int divisor, std::size_t n);
  void (*store)(void* out, const void* acc, std::size_t n);  // rounds to the element type

  // out1 = out2 = x op y, in one pass: the whole reduction of two ranks. `halve`: average. Null
  // where the type needs more than that.
  void (*pair_to)(void* out1, void* out2, const void* x, const void* y, std::size_t n);
  void (*pair_to_halved)(void* out1, void* out2, const void* x, const void* y, std::size_t n);
};

}  // namespace cohort::collective
