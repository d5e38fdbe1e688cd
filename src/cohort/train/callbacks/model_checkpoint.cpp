#include "cohort/train/callbacks/model_checkpoint.h"

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/membership/faults/fault_points.h"

namespace cohort::train {
namespace {

// For the last checkpoint of a training, which nothing makes up for. The launcher ends a worker
// that was shut out and has not come again before that.
constexpr std::chrono::seconds kLastPatience{60};
constexpr std::chrono::milliseconds kRetryPause{50};

}  // namespace

ModelCheckpoint::ModelCheckpoint(std::filesystem::path folder, ModelCheckpointOptions options)
    : folder_(std::move(folder)), options_(options), monitor_(options.watch.value_or(Watch{})) {}

void ModelCheckpoint::on_train_begin(FitState& fit) {
  if (!fit.is_chief()) close();
  succeeds_ = fit.view > 1;  // then an earlier chief may still hold the folder
  if (!succeeds_) open(fit);
  saved_step_ = fit.step;
}

void ModelCheckpoint::on_members_changed(FitState& fit) {
  succeeds_ = fit.is_chief() && !writer_;
  if (!fit.is_chief()) close();
  if (succeeds_) saved_step_ = -1;  // what another chief has saved is not known
}

// A chief that was shut out, but whose process still holds the folder (it may be suspended), keeps
// its successor from writing until it has let go.
bool ModelCheckpoint::can_write(const FitState& fit, std::chrono::seconds patience) {
  const auto deadline = Deadline::after(patience);
  for (bool waits = false; !writer_ && succeeds_;) {
    try {
      open(fit);
      succeeds_ = false;
    } catch (const InvalidInput& error) {
      if (deadline.expired()) {
        log::warning("no checkpoint of step {}: {}", fit.step, error.message());
        break;
      }
      if (!std::exchange(waits, true))
        log::info("the checkpoint of step {} waits: {}", fit.step, error.message());
      std::this_thread::sleep_for(kRetryPause);
    }
  }
  return writer_ != nullptr;
}

void ModelCheckpoint::open(const FitState& fit) {
  if (writer_ || !fit.is_chief() || fit.fast_dev_run) return;
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriterOptions{.folder = folder_, .keep_last = options_.keep});
}

void ModelCheckpoint::on_step_end(FitState& fit) {
  if (options_.every_steps > 0 && fit.step % options_.every_steps == 0) save(fit, {});
}

void ModelCheckpoint::on_epoch_end(FitState& fit) {
  SaveOptions how;
  const std::string& watched = monitor_.watch().name;
  // Every worker knows the best value: it may be the chief next time.
  if ((options_.watch || fit.logs.contains(watched)) && !fit.is_elsewhere(watched))
    if (monitor_.improved(fit.logs)) how.best = {watched, monitor_.best()};
  bool due = options_.every_epochs > 0 && (fit.epoch + 1) % options_.every_epochs == 0;
  if (due || how.best) save(fit, how);
}

void ModelCheckpoint::on_train_end(FitState& fit) {
  // That training was stopped here is known only now.
  if (options_.last && (saved_step_ != fit.step || fit.stopping())) save(fit, {}, kLastPatience);
  if (!writer_) return;
  writer_->close();
  writer_.reset();
}

void ModelCheckpoint::on_failure(FitState&) noexcept { close(); }

void ModelCheckpoint::close() noexcept {
  if (!writer_) return;
  try {
    writer_->close();
  } catch (const std::exception& error) {
    log::warning("the last checkpoint is not on the disk: {}", error.what());
  }
  writer_.reset();
}

void ModelCheckpoint::save(FitState& fit, const SaveOptions& how, std::chrono::seconds patience) {
  if (!can_write(fit, patience)) return;
  membership::FaultPoints::of_this_process().reach("checkpoint", fit.step);
  writer_->save(fit.checkpoint(), how);
  saved_step_ = fit.step;
}

nlohmann::json ModelCheckpoint::save_state() const { return monitor_.save(); }
void ModelCheckpoint::load_state(const nlohmann::json& state) { monitor_.load(state); }

}  // namespace cohort::train
