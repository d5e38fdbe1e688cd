#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cohort/train/callbacks/learning_rate_schedules.h"

// Learning rates by steps: factors of the base rate, as those by epochs (learning_rate_schedules.h),
// with which they multiply.
namespace cohort::train {

// A factor that is a function of the update that is about to be made, counted from 0 over the whole
// training, restarts included:
//
//   StepSchedule([](std::int64_t step) { return 1 / std::sqrt(1.0 + step); })
//
// It must be the same function on all workers, and keep no state. Several in one list need a name
// each. Failure: InvalidInput for a factor that is negative or not finite.
class StepSchedule : public LearningRateSchedule {
 public:
  using Factor = std::function<double(std::int64_t step)>;
  explicit StepSchedule(Factor factor, std::string name = "step_schedule");

 protected:
  explicit StepSchedule(std::string name) : LearningRateSchedule(std::move(name)) {}
  virtual double factor_of(std::int64_t step, const FitState& fit) const;

 private:
  double factor(double epochs_done, const FitState& fit) const final;
  Factor factor_;
};

struct WarmupCosineOptions {
  std::int64_t warmup_steps = 0;
  // Of the whole training, warm-up included; 0: as many as fit() makes (max_steps, or all epochs).
  std::int64_t steps = 0;
  double least = 0;  // at the end, and after it
};

// Up in a straight line to the base rate, which the last of `warmup_steps` updates has, then half a
// cosine down to `least` times it.
class WarmupCosine : public StepSchedule {
 public:
  explicit WarmupCosine(WarmupCosineOptions options);

 private:
  double factor_of(std::int64_t step, const FitState& fit) const override;
  WarmupCosineOptions options_;
};

}  // namespace cohort::train
