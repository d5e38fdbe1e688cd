#include "cohort/train/callbacks/learning_rate_schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cohort/train/options/checks.h"

namespace cohort::train {

void LearningRateSchedule::update(FitState& fit) {
  fit.learning_rate().set_factor(name_, factor(fit.epochs_done(), fit));
}

double half_cosine(double part, double least) {
  return least + (1 - least) * (1 + std::cos(std::numbers::pi * std::min(part, 1.0))) / 2;
}

LearningRateWarmup::LearningRateWarmup(double epochs, double target)
    : LearningRateSchedule("warmup"), epochs_(epochs), target_(target) {
  expect(epochs >= 0, fmt::format("LearningRateWarmup: epochs must be 0 or more, got {}", epochs),
         "Give the epochs until the full rate.");
  expect(target >= 0, fmt::format("LearningRateWarmup: target must be 0 or more, got {}", target),
         "Give the factor of the base rate, or 0 for the number of replicas.");
}

double LearningRateWarmup::factor(double epochs_done, const FitState& fit) const {
  // In an elastic job those that there is a place for: the rate must not depend on who was lost.
  const int replicas = fit.strategy().slots() * fit.strategy().local_replicas();
  double target = target_ > 0 ? target_ : replicas;
  return epochs_done >= epochs_ ? target : 1 + (target - 1) * epochs_done / epochs_;
}

StepDecay::StepDecay(std::int64_t epochs, double gamma)
    : LearningRateSchedule("step_decay"), epochs_(epochs), gamma_(gamma) {
  expect(epochs > 0, fmt::format("StepDecay: epochs must be at least 1, got {}", epochs),
         "Give the epochs between two decays.");
}

double StepDecay::factor(double epochs_done, const FitState&) const {
  return std::pow(gamma_, std::floor(epochs_done / static_cast<double>(epochs_)));
}

MultiStepDecay::MultiStepDecay(std::vector<double> epochs, double gamma)
    : LearningRateSchedule("multi_step_decay"), epochs_(std::move(epochs)), gamma_(gamma) {
  expect(std::is_sorted(epochs_.begin(), epochs_.end()),
         fmt::format("MultiStepDecay: epochs must ascend, got {}", fmt::join(epochs_, ", ")),
         "Sort them.");
}

double MultiStepDecay::factor(double epochs_done, const FitState&) const {
  auto passed = std::upper_bound(epochs_.begin(), epochs_.end(), epochs_done) - epochs_.begin();
  return std::pow(gamma_, static_cast<double>(passed));
}

CosineDecay::CosineDecay(double epochs, double least)
    : LearningRateSchedule("cosine_decay"), epochs_(epochs), least_(least) {
  expect(epochs >= 0, fmt::format("CosineDecay: epochs must be 0 or more, got {}", epochs),
         "Give the epochs until the least rate, or 0 for all epochs.");
}

double CosineDecay::factor(double epochs_done, const FitState& fit) const {
  double epochs = epochs_ > 0 ? epochs_ : static_cast<double>(fit.epochs);
  return half_cosine(epochs_done / epochs, least_);
}

}  // namespace cohort::train
