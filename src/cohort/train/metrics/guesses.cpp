#include "cohort/train/metrics/guesses.h"

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/safetensors_layout.h"
#include "cohort/train/model/metric.h"

namespace cohort::train {

torch::Tensor ClassScores::guesses(double threshold) const {
  return is_single() ? scores.gt(threshold).to(torch::kInt64) : scores.argmax(1);
}

ClassScores class_scores(const std::string& name, const Loss& batch, std::int64_t classes) {
  const torch::Tensor &output = batch.output, &target = batch.target;
  expect_output_and_target(name, batch);
  const auto refuse = [&](const std::string& advice) {
    throw InvalidInput(
        fmt::format("metric '{}' cannot compare an output of shape {} with a target "
                    "of shape {}",
                    name, shape_text(output.sizes().vec()), shape_text(target.sizes().vec())),
        {.advice = advice});
  };
  ClassScores result{.scores = {}, .targets = target.reshape({-1}).to(torch::kInt64)};
  if (output.numel() == target.numel() &&
      (output.dim() < 2 || output.size(-1) == 1 || output.sizes() == target.sizes())) {
    if (classes > 2) refuse(fmt::format("Give the scores of {} classes a target.", classes));
    result.scores = output.reshape({-1});
    return result;
  }
  torch::Tensor scores = output;
  if (output.dim() < 2) refuse("Give outputs [N, classes] and targets [N].");
  if (output.sizes().slice(0, static_cast<std::size_t>(output.dim() - 1)) != target.sizes())
    scores = output.movedim(1, -1);
  if (scores.sizes().slice(0, static_cast<std::size_t>(scores.dim() - 1)) != target.sizes())
    refuse("Give outputs [N, classes] and targets [N], as cross_entropy takes them.");
  if (classes > 0 && scores.size(-1) != classes)
    refuse(fmt::format("The metric was made for {} classes; give its options .classes = {}.",
                       classes, scores.size(-1)));
  result.scores = scores.reshape({-1, scores.size(-1)});
  return result;
}

torch::Tensor count_numbers(const torch::Tensor& index, const torch::Tensor& times,
                            std::int64_t size) {
  return torch::zeros({size}, index.options().dtype(torch::kInt64))
      .scatter_add_(0, index, times.to(torch::kInt64));
}

void expect_no_unknown(const std::string& name, double unknown, std::int64_t classes) {
  if (unknown == 0) return;
  throw InvalidInput(
      fmt::format("metric '{}': {:.0f} targets are none of its {} classes", name, unknown, classes),
      {.advice = fmt::format("Targets must be 0 to {}, or the value that is ignored; "
                             "give .classes in the metric's options.",
                             classes - 1)});
}

}  // namespace cohort::train
