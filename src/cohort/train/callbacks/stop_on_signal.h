#pragma once

#include <csignal>
#include <memory>
#include <vector>

#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

// Ends training after the step under way when this process, or that of any other worker, gets one
// of the signals: a scheduler's notice, or a person's. ModelCheckpoint then writes its last
// checkpoint, and a training that is resumed from it goes on to the bits of one that was not
// stopped.
//
// The signals' handlers are put in place when fit() begins and put back when it ends; a second
// signal of the same kind has its default effect, so that a training that hangs can still be ended.
// One such callback in a process at a time. Not for elastic jobs in which one worker's notice
// should take that worker alone away: cohort scale and the launcher do that.
class StopOnSignal : public Callback {
 public:
  explicit StopOnSignal(std::vector<int> signals = {SIGTERM});
  ~StopOnSignal() override;

  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;
  void on_failure(FitState& fit) noexcept override;

 private:
  void stop_if_signalled(FitState& fit) const;
  void put_back() noexcept;

  std::vector<int> signals_;
  std::vector<struct sigaction> before_;  // of each signal, while fit() runs
};

}  // namespace cohort::train
