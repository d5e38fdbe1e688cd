#pragma once

#include <chrono>
#include <memory>

#include "cohort/report/progress.h"
#include "cohort/report/summary.h"
#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

// The chief's screen: one line that lives while training goes on, a line for every epoch, and at
// the end a summary whose last line is the fingerprint of the weights. fit() adds it (FitOptions).
class Progress : public Callback {
 public:
  CallbackOrder order() const override { return CallbackOrder::screen; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override;
  void on_epoch_begin(FitState& fit) override;
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;
  void on_failure(FitState& fit) noexcept override;

 private:
  report::ProgressState state_of(const FitState& fit) const;

  std::unique_ptr<report::Progress> screen_;  // on the chief
  report::RunSummary summary_;
  std::int64_t first_step_ = 0;
  std::chrono::steady_clock::duration epoch_began_{};
};

}  // namespace cohort::train
