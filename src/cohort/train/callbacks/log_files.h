#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "cohort/report/metrics_log.h"
#include "cohort/train/callbacks/callback.h"

namespace cohort::train {

// One line an epoch with everything in its logs, on the chief. A resumed training goes on in the
// same file; lines of epochs that are done again are replaced.
class CsvLog : public Callback {
 public:
  explicit CsvLog(std::filesystem::path path);

  CallbackOrder order() const override { return CallbackOrder::writers; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return 0; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;

 private:
  std::filesystem::path path_;
  std::unique_ptr<report::CsvLog> file_;
};

// Every worker's own account, worker-N.jsonl in `folder`: where it runs, and for steps (every
// `every_steps`) and epochs how fast it was and how long it waited for the others.
class WorkerLog : public Callback {
 public:
  explicit WorkerLog(std::filesystem::path folder = "logs", std::int64_t every_steps = 50);

  CallbackOrder order() const override { return CallbackOrder::writers; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return every_steps_; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override { write(fit, "members"); }
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;

 private:
  void write(const FitState& fit, const char* event);

  std::filesystem::path folder_;
  std::int64_t every_steps_;
  std::unique_ptr<report::JsonLinesLog> file_;
};

}  // namespace cohort::train
