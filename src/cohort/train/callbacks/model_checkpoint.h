#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

#include "cohort/train/callbacks/callback.h"
#include "cohort/train/callbacks/monitor.h"
#include "cohort/train/checkpoint/checkpoint_writer.h"

namespace cohort::train {

struct ModelCheckpointOptions {
  std::int64_t every_epochs = 1;  // 0: not by epochs
  std::int64_t every_steps = 0;   // 0: not by steps
  bool last = true;               // one when training ends, whatever the two say
  std::size_t keep = 3;           // 0: all
  // Marks the best, which is kept besides. Without it: val_loss where there is validation data.
  std::optional<Watch> watch = {};
};

// Checkpoints of the chief, written in the background (docs/checkpoints.md); FitOptions::resume
// takes the folder. The end of training waits until the last is on the disk.
class ModelCheckpoint : public Callback {
 public:
  explicit ModelCheckpoint(std::filesystem::path folder, ModelCheckpointOptions options = {});

  CallbackOrder order() const override { return CallbackOrder::checkpoint; }
  bool requests_in_steps() const override { return false; }
  std::int64_t reads_every() const override { return options_.every_steps; }
  const std::filesystem::path& folder() const { return folder_; }
  void on_train_begin(FitState& fit) override;
  void on_members_changed(FitState& fit) override;
  void on_step_end(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  void on_train_end(FitState& fit) override;
  void on_failure(FitState& fit) noexcept override;

  std::string state_name() const override { return "model_checkpoint"; }
  nlohmann::json save_state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void open(const FitState& fit);
  void close() noexcept;
  bool can_write(const FitState& fit, std::chrono::seconds patience);
  void save(FitState& fit, const SaveOptions& how, std::chrono::seconds patience = {});

  std::filesystem::path folder_;
  ModelCheckpointOptions options_;
  Monitor monitor_;
  std::unique_ptr<CheckpointWriter> writer_;  // on the chief, while fit() runs
  bool succeeds_ = false;                     // another chief, and has not written yet
  std::int64_t saved_step_ = -1;
};

}  // namespace cohort::train
