#include <array>
#include <cmath>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::parallel {

namespace {

// In one order whatever the number of LibTorch's threads: a sum over eight interleaved runs.
template <typename T>
double sum_of_squares(const T* values, std::size_t n) {
  constexpr std::size_t kRuns = 8;
  std::array<double, kRuns> sums{};
  std::size_t i = 0;
  for (; i + kRuns <= n; i += kRuns)
    for (std::size_t k = 0; k < kRuns; ++k) {
      const auto value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  for (; i < n; ++i)
    sums[i % kRuns] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double sum_of_squares(torch::Tensor gradient) {
  const bool as_it_is =
      gradient.device().is_cpu() &&
      gradient.unsafeGetTensorImpl()->is_non_overlapping_and_dense() &&
      (gradient.scalar_type() == torch::kFloat || gradient.scalar_type() == torch::kDouble);
  if (!as_it_is) gradient = gradient.to(torch::kCPU, torch::kDouble).contiguous();
  const auto n = static_cast<std::size_t>(gradient.numel());
  return gradient.scalar_type() == torch::kFloat
             ? sum_of_squares(static_cast<const float*>(gradient.data_ptr()), n)
             : sum_of_squares(static_cast<const double*>(gradient.data_ptr()), n);
}

}  // namespace

double clip_gradients(const NamedTensors& parameters, double max_norm) {
  if (!(max_norm > 0))
    throw InvalidInput(fmt::format("a gradient norm of at most {} is not possible", max_norm),
                       {.advice = "Give a positive max_norm."});
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  std::unordered_set<const void*> seen;
  double total = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.grad().defined()) continue;
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    gradients.push_back(parameter.grad());
    total += sum_of_squares(gradients.back());
  }
  const double norm = std::sqrt(total);
  if (std::isfinite(norm) && norm > max_norm)
    for (torch::Tensor& gradient : gradients) gradient.mul_(max_norm / norm);
  return norm;
}

}  // namespace cohort::parallel
