#pragma once

#include <filesystem>
#include <memory>

#include "cohort/report/trace.h"
#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

// A trace of every worker's steps, gradient buckets and waits, for ui.perfetto.dev: each worker
// writes trace-rankN.json into `folder`, the chief merges them into trace.json with all clocks
// aligned to its own. Needs a folder that all workers see for the merged one.
class Trace : public Callback {
 public:
  explicit Trace(std::filesystem::path folder);

  CallbackOrder order() const override { return CallbackOrder::writers; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override;
  void on_epoch_begin(FitState& fit) override;
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<report::TraceRecorder> recorder_;
  std::int64_t last_ = 0;  // when the last step or epoch ended
};

}  // namespace cohort::train
