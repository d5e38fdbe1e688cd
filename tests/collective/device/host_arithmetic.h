#pragma once

#include <deque>

#include "cohort/collective/device/device_arithmetic.h"
#include "gpu.h"

namespace cohort::collective::testing {

// Adds on the host, in the order of the stream: values are copied to it and back. Slow, but it needs
// no kernels, and can be captured.
class HostArithmetic : public DeviceArithmetic {
 public:
  explicit HostArithmetic(Gpu& gpu);

  void combine(void* into, const void* a, const void* b, std::size_t count, DataType dtype,
               ReduceOp op, DeviceStream stream) override;
  void divide(void* values, std::size_t count, DataType dtype, int divisor,
              DeviceStream stream) override;

 private:
  struct Job {
    std::byte* a;
    std::byte* b;
    std::size_t count;
    DataType dtype;
    ReduceOp op;
    int divisor;  // 0: combine
  };
  void put(const Job& job, DeviceStream stream);

  Gpu& gpu_;
  std::byte* a_;
  std::byte* b_;
  std::deque<Job> jobs_;  // graphs run them again
};

}  // namespace cohort::collective::testing
