#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "cohort/report/event_file.h"
#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

struct TensorBoardOptions {
  std::int64_t every_steps = 50;                 // scalars of single steps; 0: of epochs only
  bool histograms = true;                        // of every parameter, once an epoch
  report::HyperParameters hyperparameters = {};  // beside batch size, rate and workers
};

// TensorBoard event files of the chief: loss, metrics and rate of steps and epochs, histograms of
// the parameters, the model as text, and the run's line in the table of hyperparameters.
class TensorBoard : public Callback {
 public:
  explicit TensorBoard(std::filesystem::path folder, TensorBoardOptions options = {});

  CallbackOrder order() const override { return CallbackOrder::writers; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return options_.every_steps; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override;
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;
  void on_failure(FitState& fit) noexcept override;

 private:
  void begin_session(const FitState& fit);

  std::filesystem::path folder_;
  TensorBoardOptions options_;
  std::unique_ptr<report::EventWriter> writer_;  // on the chief, while fit() runs
};

}  // namespace cohort::train
