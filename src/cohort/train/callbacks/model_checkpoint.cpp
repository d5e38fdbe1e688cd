#include "cohort/train/callbacks/model_checkpoint.h"

#include <nlohmann/json.hpp>

#include "cohort/base/log.h"

namespace cohort::train {

ModelCheckpoint::ModelCheckpoint(std::filesystem::path folder, ModelCheckpointOptions options)
    : folder_(std::move(folder)), options_(options), monitor_(options.watch.value_or(Watch{})) {}

void ModelCheckpoint::on_train_begin(FitState& fit) {
  if (!fit.is_chief() || fit.fast_dev_run) return;
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.folder = folder_, .keep_last = options_.keep});
  saved_step_ = fit.step;
}

void ModelCheckpoint::on_step_end(FitState& fit) {
  if (options_.every_steps > 0 && fit.step % options_.every_steps == 0) save(fit, {});
}

void ModelCheckpoint::on_epoch_end(FitState& fit) {
  if (!writer_) return;
  SaveOptions how;
  if (options_.watch || fit.logs.contains(monitor_.watch().name))
    if (monitor_.improved(fit.logs)) how.best = {monitor_.watch().name, monitor_.best()};
  bool due = options_.every_epochs > 0 && (fit.epoch + 1) % options_.every_epochs == 0;
  if (due || how.best) save(fit, how);
}

void ModelCheckpoint::on_train_end(FitState& fit) {
  if (!writer_) return;
  if (options_.last && saved_step_ != fit.step) save(fit, {});
  writer_->close();
  writer_.reset();
}

void ModelCheckpoint::on_failure(FitState&) noexcept {
  if (!writer_) return;
  try {
    writer_->close();
  } catch (const std::exception& error) {
    log::warning("the last checkpoint is not on the disk: {}", error.what());
  }
  writer_.reset();
}

void ModelCheckpoint::save(FitState& fit, const SaveOptions& how) {
  if (!writer_) return;
  writer_->save(fit.checkpoint(), how);
  saved_step_ = fit.step;
}

nlohmann::json ModelCheckpoint::save_state() const { return monitor_.save(); }
void ModelCheckpoint::load_state(const nlohmann::json& state) { monitor_.load(state); }

}  // namespace cohort::train
