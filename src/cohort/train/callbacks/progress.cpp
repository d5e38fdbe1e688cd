#include "cohort/train/callbacks/progress.h"

#include <fmt/core.h>

#include <algorithm>

namespace cohort::train {
namespace {

std::optional<double> find(const Logs& logs, const std::string& name) {
  auto found = logs.find(name);
  return found == logs.end() ? std::nullopt : std::optional(found->second);
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Progress::on_train_begin(FitState& fit) {
  if (!fit.is_chief()) return;
  screen_ = std::make_unique<report::Progress>(report::ProgressOptions::detect());
  summary_ = {.workers = fit.strategy().workers()};
  first_step_ = fit.step;
  int replicas = fit.strategy().replicas();
  screen_->print(fmt::format(
      "{} samples, batches of {}, {} steps an epoch; {}: {} worker{}{}, {} virtual shard{}",
      fit.samples, fit.batch_size, fit.steps_per_epoch, fit.strategy().name(), summary_.workers,
      summary_.workers == 1 ? "" : "s",
      replicas == summary_.workers ? "" : fmt::format(" with {} replicas", replicas), fit.shards,
      fit.shards == 1 ? "" : "s"));
  if (fit.step > 0)
    screen_->print(fmt::format("goes on after step {}, in epoch {}", fit.step, fit.epoch + 1));
}

void Progress::on_members_changed(FitState& fit) {
  if (!fit.is_chief())
    screen_.reset();
  else if (!screen_)
    on_train_begin(fit);
  summary_.workers = fit.strategy().workers();
}

void Progress::on_epoch_begin(FitState& fit) { epoch_began_ = fit.elapsed; }

void Progress::on_step_end(FitState& fit) {
  if (screen_ && screen_->due(fit.epoch + 1, fit.step_in_epoch, fit.steps_per_epoch))
    screen_->show(state_of(fit));
}

report::ProgressState Progress::state_of(const FitState& fit) const {
  auto steps_left = (fit.epochs - fit.epoch) * fit.steps_per_epoch - fit.step_in_epoch;
  if (fit.max_steps > 0) steps_left = std::min(steps_left, fit.max_steps - fit.step);
  double per_step =
      seconds(fit.elapsed) / static_cast<double>(std::max<std::int64_t>(fit.step - first_step_, 1));
  return {.epoch = fit.epoch + 1,
          .epochs = fit.epochs,
          .step = fit.step_in_epoch,
          .steps = fit.steps_per_epoch,
          .loss = find(fit.running, "loss"),
          .accuracy = find(fit.running, "accuracy"),
          .samples_per_second = fit.samples_per_second,
          .seconds_left = per_step * static_cast<double>(steps_left),
          .workers = fit.strategy().workers(),
          .communication_share = fit.communication_share,
          .data_share = fit.data_share};
}

void Progress::on_epoch_end(FitState& fit) {
  if (!screen_) return;
  report::EpochSummary epoch{.epoch = fit.epoch + 1,
                             .loss = find(fit.logs, "loss"),
                             .accuracy = find(fit.logs, "accuracy"),
                             .validation_loss = find(fit.logs, "val_loss"),
                             .validation_accuracy = find(fit.logs, "val_accuracy"),
                             .seconds = seconds(fit.elapsed - epoch_began_),
                             .samples_per_second = fit.samples_per_second,
                             .communication_share = fit.communication_share,
                             .data_share = fit.data_share};
  summary_.epochs.push_back(epoch);
  std::string line = fmt::format("epoch {}/{}", fit.epoch + 1, fit.epochs);
  for (const auto& [name, value] : fit.logs) line += fmt::format("  {} {:.4g}", name, value);
  screen_->print(line);
}

void Progress::on_train_end(FitState& fit) {
  if (!screen_) return;
  if (fit.stopping()) screen_->print("stopped: " + fit.stop_reason());
  summary_.seconds = seconds(fit.elapsed);
  summary_.samples = fit.samples_trained;
  if (summary_.workers > 1) summary_.communication_share = fit.communication_share;
  summary_.data_share = seconds(fit.waited_for_data) / std::max(summary_.seconds, 1e-9);
  summary_.weights_sha256 = fit.weights;
  std::string text = report::format_summary(summary_);
  text.pop_back();  // print() ends the line
  screen_->print(text);
  screen_.reset();
}

void Progress::on_failure(FitState&) noexcept { screen_.reset(); }

}  // namespace cohort::train
