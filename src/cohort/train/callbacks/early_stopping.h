#pragma once

#include "cohort/train/callback.h"
#include "cohort/train/callbacks/monitor.h"

namespace cohort::train {

// Ends training when the watched number has not improved for `patience` epochs in a row.
class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(Watch watch = {}, std::int64_t patience = 5);

  void on_epoch_end(FitState& fit) override;

  std::string state_name() const override;
  nlohmann::json save_state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  Monitor monitor_;
  std::int64_t patience_;
};

}  // namespace cohort::train
