#pragma once

#include "cohort/train/callbacks/callback.h"
#include "cohort/train/callbacks/monitor.h"

namespace cohort::train {

struct PlateauOptions {
  Watch watch = {};
  double factor = 0.1;
  std::int64_t patience = 5;  // epochs without improvement before the rate falls
  double least_rate = 0;      // never below
};

// Multiplies the learning rate by `factor` whenever the watched number stops improving.
class ReduceLearningRateOnPlateau : public Callback {
 public:
  explicit ReduceLearningRateOnPlateau(PlateauOptions options = {});

  CallbackOrder order() const override { return CallbackOrder::learning_rate; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;

  std::string state_name() const override;
  nlohmann::json save_state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  PlateauOptions options_;
  Monitor monitor_;
  double factor_ = 1;
};

}  // namespace cohort::train
