#pragma once

#include "cohort/train/callbacks/callback.h"
#include "cohort/train/callbacks/monitor.h"

namespace cohort::train {

// Ends training when the watched number has not improved for `patience` epochs in a row. A training
// that it had ended stays so when it is resumed with no more patience than before.
class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(Watch watch = {}, std::int64_t patience = 5);

  bool requests_in_steps() const override { return false; }  // at the end of epochs alone
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;

  std::string state_name() const override;
  nlohmann::json save_state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void stop_if_out_of_patience(FitState& fit) const;

  Monitor monitor_;
  std::int64_t patience_;
  bool restored_ = false;  // from a checkpoint, since the last beginning
};

}  // namespace cohort::train
