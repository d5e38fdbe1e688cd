#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

enum class Every { step, epoch };

// A scheduler of LibTorch (StepLR, or a class derived from LRScheduler), which steps once an epoch
// or once a step:
//
//   auto step_lr = std::make_shared<torch::optim::StepLR>(*optimizer, 30, 0.1);
//   fit(data, {.callbacks = {std::make_shared<cohort::Scheduler>(step_lr, cohort::Every::epoch)}});
//
// How often it has stepped follows from where training stands, so a training that is resumed, or that
// a worker joins, has the rates that it would have had: a scheduler that is behind steps until it is
// not. The scheduler sees the base rates alone; what it makes of them is a factor of each parameter
// group, which multiplies with those of other callbacks (warm-up, plateau).
//
// The scheduler is to depend on nothing but its steps and the rates of its optimizer. Only this object
// steps it. Of torch::optim::ReduceLROnPlateauScheduler, which is another kind, the equivalent is
// ReduceLearningRateOnPlateau.
class Scheduler : public Callback {
 public:
  // Over the optimizer that the Trainer was given.
  Scheduler(std::shared_ptr<torch::optim::LRScheduler> scheduler, Every every);
  // For a Trainer that makes the optimizer itself.
  using Make =
      std::function<std::shared_ptr<torch::optim::LRScheduler>(torch::optim::Optimizer& optimizer)>;
  Scheduler(Make make, Every every);

  CallbackOrder order() const override { return CallbackOrder::learning_rate; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override { update(fit); }
  void on_epoch_begin(FitState& fit) override { update(fit); }
  void on_step_end(FitState& fit) override;

 private:
  using Rates = std::vector<double>;  // by parameter group
  void update(FitState& fit);
  // After so many of its steps, as it has them by itself.
  const Rates& rates_after(std::int64_t count, torch::optim::Optimizer& optimizer);

  std::shared_ptr<torch::optim::LRScheduler> scheduler_;
  Make make_;
  Every every_;
  Rates first_;             // the base rates
  std::deque<Rates> past_;  // after the last steps: an event may come again in an elastic job
  std::int64_t count_ = 0;  // steps that it has made
};

}  // namespace cohort::train
