#include "cohort/train/callbacks/log_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

namespace cohort::train {
namespace {

// Where a log of this training begins: a new one anew, a resumed one after the steps it has.
std::optional<std::int64_t> resume_after(const FitState& fit) {
  return fit.step > 0 ? std::optional(fit.step) : std::nullopt;
}

report::MetricRow row_of(const FitState& fit) {
  report::MetricRow row{.step = fit.step, .values = {}};
  row.values.emplace_back("epoch", fit.epoch + 1);
  for (const auto& [name, value] : fit.logs) row.values.emplace_back(name, value);
  return row;
}

}  // namespace

CsvLog::CsvLog(std::filesystem::path path) : path_(std::move(path)) {}

void CsvLog::on_train_begin(FitState& fit) {
  if (fit.is_chief() && !fit.fast_dev_run)
    file_ = std::make_unique<report::CsvLog>(path_, resume_after(fit));
}

void CsvLog::on_members_changed(FitState& fit) {
  if (!fit.is_chief())
    file_.reset();
  else if (!file_)
    on_train_begin(fit);
}

void CsvLog::on_epoch_end(FitState& fit) {
  if (!file_) return;
  file_->write(row_of(fit));
  file_->flush();
}

WorkerLog::WorkerLog(std::filesystem::path folder, std::int64_t every_steps)
    : folder_(std::move(folder)), every_steps_(every_steps) {}

void WorkerLog::on_train_begin(FitState& fit) {
  if (fit.fast_dev_run) return;
  file_ = std::make_unique<report::JsonLinesLog>(
      folder_ / fmt::format("worker-{}.jsonl", fit.strategy().slot()), resume_after(fit));
  write(fit, "begin");
}

void WorkerLog::on_step_end(FitState& fit) {
  if (every_steps_ > 0 && fit.step % every_steps_ == 0) write(fit, "step");
}

void WorkerLog::on_epoch_end(FitState& fit) { write(fit, "epoch"); }
void WorkerLog::on_train_end(FitState& fit) { write(fit, "end"); }

void WorkerLog::write(const FitState& fit, const char* event) {
  if (!file_) return;
  auto row = row_of(fit);
  row.values.emplace_back("event", std::string(event));
  if (fit.view > 0) row.values.emplace_back("view", static_cast<std::int64_t>(fit.view));
  row.values.emplace_back("pid", static_cast<std::int64_t>(getpid()));
  row.values.emplace_back("seconds", std::chrono::duration<double>(fit.elapsed).count());
  row.values.emplace_back("samples_per_second", fit.samples_per_second);
  row.values.emplace_back("communication_share", fit.communication_share);
  row.values.emplace_back("data_share", fit.data_share);
  file_->write(row);
  file_->flush();
}

}  // namespace cohort::train
