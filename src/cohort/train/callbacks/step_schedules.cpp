#include "cohort/train/callbacks/step_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/train/options/checks.h"

namespace cohort::train {

StepSchedule::StepSchedule(Factor factor, std::string name)
    : LearningRateSchedule(std::move(name)), factor_(std::move(factor)) {
  expect(factor_ != nullptr, "StepSchedule has no function",
         "Give one from the step to the factor of the base rate.");
}

double StepSchedule::factor_of(std::int64_t step, const FitState&) const { return factor_(step); }

double StepSchedule::factor(double, const FitState& fit) const {
  const double value = factor_of(fit.step, fit);
  expect(value >= 0 && std::isfinite(value),
         fmt::format("{} gave the factor {} for step {}", name(), value, fit.step),
         "Return a finite number, 0 or more.");
  return value;
}

WarmupCosine::WarmupCosine(WarmupCosineOptions options)
    : StepSchedule("warmup_cosine"), options_(options) {
  expect(options.warmup_steps >= 0 && options.steps >= 0,
         fmt::format("WarmupCosine: steps must be 0 or more, got {} of warm-up and {} in all",
                     options.warmup_steps, options.steps),
         "Give steps 0 for all that fit() makes.");
  expect(options.steps == 0 || options.steps > options.warmup_steps,
         fmt::format("WarmupCosine: {} steps are no more than the {} of the warm-up", options.steps,
                     options.warmup_steps),
         "Give all steps of the training.");
  expect(options.least >= 0 && options.least <= 1,
         fmt::format("WarmupCosine: least must be 0 to 1, got {}", options.least),
         "Give the part of the base rate that is left at the end.");
}

double WarmupCosine::factor_of(std::int64_t step, const FitState& fit) const {
  const std::int64_t warmup = options_.warmup_steps;
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  std::int64_t steps = options_.steps;
  if (steps == 0) {
    steps = fit.epochs * fit.steps_per_epoch;
    if (fit.max_steps > 0) steps = std::min(steps, fit.max_steps);
  }
  const auto left = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  return half_cosine(static_cast<double>(step - warmup) / left, options_.least);
}

}  // namespace cohort::train
