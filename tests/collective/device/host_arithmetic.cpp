#include "host_arithmetic.h"

#include <algorithm>
#include <vector>

#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective::testing {

namespace {

constexpr std::size_t kPartBytes = 256 * 1024;

}  // namespace

HostArithmetic::HostArithmetic(Gpu& gpu)
    : gpu_(gpu), a_(gpu.allocate_host(kPartBytes)), b_(gpu.allocate_host(kPartBytes)) {}

void HostArithmetic::put(const Job& job, DeviceStream stream) {
  jobs_.push_back(job);
  gpu_.call_host(
      stream,
      [](void* data) {
        const Job& todo = *static_cast<Job*>(data);
        const Kernels& kernel = kernels(todo.dtype, todo.op);
        std::vector<std::byte> accumulator(todo.count * kernel.accumulator_bytes);
        if (todo.divisor == 0) {
          kernel.pair(accumulator.data(), todo.a, todo.b, todo.count);
        } else {
          kernel.load(accumulator.data(), todo.a, todo.count);
          kernel.divide(accumulator.data(), todo.divisor, todo.count);
        }
        kernel.store(todo.a, accumulator.data(), todo.count);
      },
      &jobs_.back());
}

void HostArithmetic::combine(void* into, const void* a, const void* b, std::size_t count,
                             DataType dtype, ReduceOp op, DeviceStream stream) {
  const std::size_t element = size_of(dtype);
  for (std::size_t from = 0; from < count * element; from += kPartBytes) {
    const std::size_t bytes = std::min(kPartBytes, count * element - from);
    gpu_.copy(a_, static_cast<const std::byte*>(a) + from, bytes, stream);
    gpu_.copy(b_, static_cast<const std::byte*>(b) + from, bytes, stream);
    put({a_, b_, bytes / element, dtype, op, 0}, stream);
    gpu_.copy(static_cast<std::byte*>(into) + from, a_, bytes, stream);
  }
}

void HostArithmetic::divide(void* values, std::size_t count, DataType dtype, int divisor,
                            DeviceStream stream) {
  const std::size_t element = size_of(dtype);
  for (std::size_t from = 0; from < count * element; from += kPartBytes) {
    const std::size_t bytes = std::min(kPartBytes, count * element - from);
    gpu_.copy(a_, static_cast<std::byte*>(values) + from, bytes, stream);
    put({a_, b_, bytes / element, dtype, ReduceOp::sum, divisor}, stream);
    gpu_.copy(static_cast<std::byte*>(values) + from, a_, bytes, stream);
  }
}

}  // namespace cohort::collective::testing
