#include "cohort/train/callbacks/learning_rate_schedules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

void expect(bool good, const std::string& what, const char* advice) {
  if (!good) throw InvalidInput(what, {.advice = advice});
}

}  // namespace

void LearningRateSchedule::update(FitState& fit) {
  fit.learning_rate().set_factor(name_, factor(fit.epochs_done(), fit));
}

LearningRateWarmup::LearningRateWarmup(double epochs, double target)
    : LearningRateSchedule("warmup"), epochs_(epochs), target_(target) {
  expect(epochs >= 0, fmt::format("a warm-up of {} epochs cannot be", epochs),
         "Give 0 or more epochs.");
  expect(target >= 0, fmt::format("a warm-up towards {} times the rate cannot be", target),
         "Give a positive factor, or 0 for the number of replicas.");
}

double LearningRateWarmup::factor(double epochs_done, const FitState& fit) const {
  // In an elastic job those that there is a place for: the rate must not depend on who was lost.
  const int replicas = fit.strategy().slots() * fit.strategy().local_replicas();
  double target = target_ > 0 ? target_ : replicas;
  return epochs_done >= epochs_ ? target : 1 + (target - 1) * epochs_done / epochs_;
}

StepDecay::StepDecay(std::int64_t epochs, double gamma)
    : LearningRateSchedule("step_decay"), epochs_(epochs), gamma_(gamma) {
  expect(epochs > 0, fmt::format("a decay every {} epochs cannot be", epochs),
         "Give 1 or more epochs.");
}

double StepDecay::factor(double epochs_done, const FitState&) const {
  return std::pow(gamma_, std::floor(epochs_done / static_cast<double>(epochs_)));
}

MultiStepDecay::MultiStepDecay(std::vector<double> epochs, double gamma)
    : LearningRateSchedule("multi_step_decay"), epochs_(std::move(epochs)), gamma_(gamma) {
  expect(std::is_sorted(epochs_.begin(), epochs_.end()),
         "the epochs of a multi-step decay do not ascend", "Sort them.");
}

double MultiStepDecay::factor(double epochs_done, const FitState&) const {
  auto passed = std::upper_bound(epochs_.begin(), epochs_.end(), epochs_done) - epochs_.begin();
  return std::pow(gamma_, static_cast<double>(passed));
}

CosineDecay::CosineDecay(double epochs, double least)
    : LearningRateSchedule("cosine_decay"), epochs_(epochs), least_(least) {
  expect(epochs >= 0, fmt::format("a decay over {} epochs cannot be", epochs),
         "Give a positive number, or 0 for all epochs.");
}

double CosineDecay::factor(double epochs_done, const FitState& fit) const {
  double epochs = epochs_ > 0 ? epochs_ : static_cast<double>(fit.epochs);
  double part = std::min(epochs_done / epochs, 1.0);
  return least_ + (1 - least_) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace cohort::train
