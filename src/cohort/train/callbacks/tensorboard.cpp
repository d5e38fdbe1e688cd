#include "cohort/train/callbacks/tensorboard.h"

#include <fmt/core.h>

#include <span>

#include "cohort/base/log/log.h"

namespace cohort::train {
namespace {

// "val_loss" belongs beside "loss": TensorBoard groups by what stands before the slash.
std::string tag_of(const std::string& name) {
  return name.rfind("val_", 0) == 0 ? "validation/" + name.substr(4) : "train/" + name;
}

}  // namespace

TensorBoard::TensorBoard(std::filesystem::path folder, TensorBoardOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

void TensorBoard::on_train_begin(FitState& fit) {
  if (!fit.is_chief() || fit.fast_dev_run) return;
  writer_ = std::make_unique<report::EventWriter>(folder_);
  begin_session(fit);
}

void TensorBoard::on_members_changed(FitState& fit) {
  if (!fit.is_chief())
    on_failure(fit);
  else if (!writer_)
    on_train_begin(fit);
}

void TensorBoard::begin_session(const FitState& fit) {
  std::string model = "| parameter | shape |\n|---|---|\n";
  std::int64_t values = 0;
  for (const auto& item : fit.model().named_parameters()) {
    model += fmt::format("| {} | {} |\n", item.key(), c10::str(item.value().sizes()));
    values += item.value().numel();
  }
  writer_->text("model", fmt::format("{} parameters\n\n{}", values, model), fit.step);

  auto parameters = options_.hyperparameters;
  parameters["batch_size"] = static_cast<double>(fit.batch_size);
  parameters["learning_rate"] = fit.learning_rate().base();
  parameters["workers"] = static_cast<double>(fit.strategy().workers());
  parameters["strategy"] = fit.strategy().name();
  writer_->hyperparameters(parameters, {"train/epoch_loss", "validation/loss"});
  writer_->flush();
}

void TensorBoard::on_step_end(FitState& fit) {
  if (!writer_ || options_.every_steps == 0 || fit.step % options_.every_steps != 0) return;
  for (const auto& [name, value] : fit.logs) writer_->scalar(tag_of(name), value, fit.step);
  writer_->scalar("train/learning_rate", fit.learning_rate().get(), fit.step);
  writer_->scalar("speed/samples_per_second", fit.samples_per_second, fit.step);
  writer_->scalar("speed/communication_share", fit.communication_share, fit.step);
}

void TensorBoard::on_epoch_end(FitState& fit) {
  if (!writer_) return;
  for (const auto& [name, value] : fit.logs)
    writer_->scalar(name.rfind("val_", 0) == 0 ? tag_of(name) : "train/epoch_" + name, value,
                    fit.step);
  if (options_.histograms)
    for (const auto& item : fit.model().named_parameters()) {
      auto values = item.value().detach().to(torch::kCPU, torch::kFloat32).contiguous();
      writer_->histogram(item.key(),
                         std::span<const float>(values.data_ptr<float>(),
                                                static_cast<std::size_t>(values.numel())),
                         fit.step);
    }
  writer_->flush();
}

void TensorBoard::on_train_end(FitState&) {
  if (!writer_) return;
  writer_->end_session(report::SessionStatus::success);
  writer_->flush();
  writer_.reset();
}

void TensorBoard::on_failure(FitState&) noexcept {
  if (!writer_) return;
  try {
    writer_->end_session(report::SessionStatus::failure);
    writer_->flush();
  } catch (const std::exception& error) {
    log::warning("the end of the run is missing in TensorBoard's file: {}", error.what());
  }
  writer_.reset();
}

}  // namespace cohort::train
