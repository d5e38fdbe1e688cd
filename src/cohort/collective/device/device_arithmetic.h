#pragma once

#include <cstddef>

#include "cohort/collective/device/device_group.h"

namespace cohort::collective {

// Sums and the like on a GPU, for backends that only move bytes. LibTorch's kernels do it
// (parallel/cuda/torch_arithmetic.h): this module has none of its own.
class DeviceArithmetic {
 public:
  virtual ~DeviceArithmetic() = default;

  // into[i] = op(a[i], b[i]) for `count` elements, put on `stream`. `into` may be `a` or `b`.
  // `op` is not average. Throws InvalidInput for a type that cannot be reduced.
  virtual void combine(void* into, const void* a, const void* b, std::size_t count, DataType dtype,
                       ReduceOp op, DeviceStream stream) = 0;
  // values[i] /= divisor
  virtual void divide(void* values, std::size_t count, DataType dtype, int divisor,
                      DeviceStream stream) = 0;
};

}  // namespace cohort::collective
