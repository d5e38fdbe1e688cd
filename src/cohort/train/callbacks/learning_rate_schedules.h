#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/train/callbacks/callback.h"

// Callbacks that change the learning rate. Each owns one factor; those in one list multiply.
namespace cohort::train {

// A factor that depends on how many epochs were done, fractions of an epoch included. Set before
// the first step and after every one.
class LearningRateSchedule : public Callback {
 public:
  CallbackOrder order() const override { return CallbackOrder::learning_rate; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override { update(fit); }
  void on_epoch_begin(FitState& fit) override { update(fit); }
  void on_step_end(FitState& fit) override { update(fit); }

 protected:
  explicit LearningRateSchedule(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  virtual double factor(double epochs_done, const FitState& fit) const = 0;
  void update(FitState& fit);
  std::string name_;
};

// Half a cosine: from 1, where `part` is 0, down to `least` where it is 1 or more.
double half_cosine(double part, double least);

// From the base rate to `target` times it, in a straight line over the first `epochs`; a large
// batch wants a large rate, but not at once. target 0: the number of replicas.
class LearningRateWarmup : public LearningRateSchedule {
 public:
  explicit LearningRateWarmup(double epochs = 5, double target = 0);

 private:
  double factor(double epochs_done, const FitState& fit) const override;
  double epochs_;
  double target_;
};

// Times `gamma` after every `epochs` epochs.
class StepDecay : public LearningRateSchedule {
 public:
  StepDecay(std::int64_t epochs, double gamma = 0.1);

 private:
  double factor(double epochs_done, const FitState& fit) const override;
  std::int64_t epochs_;
  double gamma_;
};

// Times `gamma` when each of `epochs` (ascending) has come: ResNet's 91, 136, 182.
class MultiStepDecay : public LearningRateSchedule {
 public:
  explicit MultiStepDecay(std::vector<double> epochs, double gamma = 0.1);

 private:
  double factor(double epochs_done, const FitState& fit) const override;
  std::vector<double> epochs_;
  double gamma_;
};

// Half a cosine from 1 down to `least` over `epochs` (0: all of fit()'s), and `least` after that.
class CosineDecay : public LearningRateSchedule {
 public:
  explicit CosineDecay(double epochs = 0, double least = 0);

 private:
  double factor(double epochs_done, const FitState& fit) const override;
  double epochs_;
  double least_;
};

}  // namespace cohort::train
