#include "cohort/train/callbacks/trace.h"

#include <fmt/core.h>

#include <array>
#include <vector>

#include "cohort/base/log/log.h"
#include "cohort/report/trace_merge.h"

namespace cohort::train {
namespace {

constexpr int kClockSamples = 16;

std::int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// How far rank 0's clock is from this one's. Rank 0 answers each of the others in turn.
std::int64_t clock_offset(collective::Group& group) {
  using collective::DataType;
  if (group.rank() == 0) {
    for (int peer = 1; peer < group.size(); ++peer)
      for (int i = 0; i < kClockSamples; ++i) {
        std::int64_t question = 0;
        group.recv(&question, 1, DataType::i64, peer);
        std::int64_t answer = report::trace_now();
        group.send(&answer, 1, DataType::i64, peer);
      }
    return 0;
  }
  std::array<report::ClockSample, kClockSamples> samples;
  for (auto& sample : samples) {
    sample.sent = report::trace_now();
    group.send(&sample.sent, 1, DataType::i64, 0);
    group.recv(&sample.remote, 1, DataType::i64, 0);
    sample.received = report::trace_now();
  }
  return report::align_clocks(samples).offset_ns;
}

}  // namespace

Trace::Trace(std::filesystem::path folder) : folder_(std::move(folder)) {}

void Trace::on_train_begin(FitState& fit) {
  if (fit.fast_dev_run) return;
  recorder_ = std::make_unique<report::TraceRecorder>(
      report::TraceOptions{.rank = fit.strategy().slot(),
                           .process_name = fmt::format("worker {}", fit.strategy().slot())});
  recorder_->name_thread("training");
  // A worker that joins later finds no other that compares clocks.
  if (fit.strategy().has_group() && !fit.joined)
    recorder_->set_clock_offset_us(clock_offset(fit.workers()) / 1000);
  fit.gradients().record_events(true);
}

void Trace::on_members_changed(FitState& fit) {
  if (!recorder_) return;
  std::string name = fmt::format("view {}: {}", fit.view, fit.view_reason);
  if (fit.step_is_redone) name += fmt::format("; step {} is done again", fit.step + 1);
  recorder_->complete(recorder_->intern(name), "members", last_, report::trace_now(),
                      {"view", static_cast<double>(fit.view)});
  last_ = report::trace_now();
}

void Trace::on_epoch_begin(FitState&) { last_ = report::trace_now(); }

void Trace::on_step_end(FitState& fit) {
  if (!recorder_) return;
  fit.gradients().record_events(true);  // a change of members makes new ones
  recorder_->complete("step", "step", last_, report::trace_now(),
                      {"step", static_cast<double>(fit.step)});
  for (const auto& event : fit.gradients().take_events())
    recorder_->complete(recorder_->intern(fmt::format("bucket {}", event.bucket)), "communication",
                        nanoseconds(event.begun), nanoseconds(event.ended),
                        {"bytes", static_cast<double>(event.bytes)},
                        recorder_->track("communication"));
  recorder_->counter("samples/s", fit.samples_per_second);
  last_ = report::trace_now();
}

void Trace::on_epoch_end(FitState& fit) {
  if (!recorder_) return;
  recorder_->complete("validation", "epoch", last_, report::trace_now(),
                      {"epoch", static_cast<double>(fit.epoch)});
  last_ = report::trace_now();
}

void Trace::on_train_end(FitState& fit) {
  if (!recorder_) return;
  fit.gradients().record_events(false);
  auto mine = recorder_->write(folder_);
  if (fit.strategy().has_group()) fit.workers().barrier();
  if (fit.is_chief()) {
    std::vector<std::filesystem::path> files;
    for (int place = 0; place < fit.strategy().slots(); ++place) {
      auto file = folder_ / fmt::format("trace-rank{}.json", place);
      if (std::filesystem::exists(file)) files.push_back(file);
    }
    if (static_cast<int>(files.size()) < fit.strategy().workers())
      log::warning("{} has the traces of {} of {} workers; the others lie on their own hosts",
                   folder_.string(), files.size(), fit.strategy().workers());
    report::merge_traces(files, folder_ / "trace.json");
  }
  recorder_.reset();
}

}  // namespace cohort::train
