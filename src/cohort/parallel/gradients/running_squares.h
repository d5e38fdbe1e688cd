#pragma once

#include <torch/torch.h>

#include <array>
#include <cstddef>

namespace cohort::parallel {

// The sum of squares of one tensor's values in one order, whatever the number of LibTorch's
// threads: eight interleaved runs. A tensor may come in pieces, one after the other, of which all
// but the last have a multiple of eight values. A value.
struct RunningSquares {
  static constexpr std::size_t kRuns = 8;
  std::array<double, kRuns> runs{};

  template <typename T>
  void add(const T* values, std::size_t n) {
    std::size_t i = 0;
    for (; i + kRuns <= n; i += kRuns)
      for (std::size_t k = 0; k < kRuns; ++k) {
        const auto value = static_cast<double>(values[i + k]);
        runs[k] += value * value;
      }
    for (; i < n; ++i)
      runs[i % kRuns] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }

  // Of f32 or f64 on the CPU, without gaps, in the order of its memory.
  void add(const torch::Tensor& values) {
    const auto n = static_cast<std::size_t>(values.numel());
    if (values.scalar_type() == torch::kFloat)
      add(static_cast<const float*>(values.data_ptr()), n);
    else
      add(static_cast<const double*>(values.data_ptr()), n);
  }

  double total() const {
    double total = 0;
    for (const double run : runs) total += run;
    return total;
  }
};

// Of a gradient of any type and layout, on any device.
double sum_of_squares(torch::Tensor gradient);

}  // namespace cohort::parallel
