#include <cmath>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/gradients/running_squares.h"

namespace cohort::parallel {

double sum_of_squares(torch::Tensor gradient) {
  const bool as_it_is =
      gradient.device().is_cpu() &&
      gradient.unsafeGetTensorImpl()->is_non_overlapping_and_dense() &&
      (gradient.scalar_type() == torch::kFloat || gradient.scalar_type() == torch::kDouble);
  if (!as_it_is) gradient = gradient.to(torch::kCPU, torch::kDouble).contiguous();
  RunningSquares squares;
  squares.add(gradient);
  return squares.total();
}

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
