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

namespace {

// Of each parameter once.
std::vector<torch::Tensor> gradients_of(const NamedTensors& parameters, double max_norm) {
  if (!(max_norm > 0))
    throw InvalidInput(fmt::format("a gradient norm of at most {} is not possible", max_norm),
                       {.advice = "Give a positive max_norm."});
  std::vector<torch::Tensor> gradients;
  std::unordered_set<const void*> seen;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.grad().defined()) continue;
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) gradients.push_back(parameter.grad());
  }
  return gradients;
}

double clip_on_host(std::vector<torch::Tensor>& gradients, double max_norm) {
  double total = 0;
  for (const torch::Tensor& gradient : gradients) total += sum_of_squares(gradient);
  const double norm = std::sqrt(total);
  if (std::isfinite(norm) && norm > max_norm)
    for (torch::Tensor& gradient : gradients) gradient.mul_(max_norm / norm);
  return norm;
}

}  // namespace

torch::Tensor clip_gradients_on_device(const NamedTensors& parameters, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients = gradients_of(parameters, max_norm);
  if (gradients.empty() || gradients.front().is_cpu())
    return torch::scalar_tensor(clip_on_host(gradients, max_norm), torch::kDouble);
  const torch::Tensor norm =
      torch::linalg_vector_norm(torch::stack(torch::_foreach_norm(gradients)), 2);
  if (std::isfinite(max_norm)) {
    const torch::Tensor factor =
        torch::where(norm.isfinite() & (norm > max_norm), max_norm / norm, torch::ones_like(norm));
    torch::_foreach_mul_(gradients, factor);
  }
  return norm;
}

double clip_gradients(const NamedTensors& parameters, double max_norm) {
  return clip_gradients_on_device(parameters, max_norm).item<double>();
}

}  // namespace cohort::parallel
