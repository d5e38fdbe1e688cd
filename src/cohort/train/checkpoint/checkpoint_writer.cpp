#include "cohort/train/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <memory>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/base/log/log.h"
#include "cohort/train/checkpoint/checkpoint_files.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWaitWorthSaying{200};

// A copy that shares no memory with what training goes on to change.
torch::Tensor snapshot_of(const torch::Tensor& tensor) {
  auto copy = on_cpu(tensor);
  return copy.is_alias_of(tensor) ? copy.clone() : copy;
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options) : options_(std::move(options)) {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error)
    throw SystemError(fmt::format("cannot make the folder '{}'", options_.folder.string()),
                      error.value(), {.advice = "Choose a folder that this user can write to."});
  if (::access(options_.folder.c_str(), W_OK | X_OK) != 0)
    throw SystemError(fmt::format("cannot write to the folder '{}'", options_.folder.string()),
                      errno, {.advice = "Choose a folder that this user can write to."});
  lock_folder();
  for (const auto& path : remove_leftovers(options_.folder))
    log::info("removed '{}', which an interrupted run left", path.string());
}

CheckpointWriter::~CheckpointWriter() {
  try {
    if (auto error = slot_.abandon()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    log::warning("checkpoints in '{}' were not closed: {}", options_.folder.string(), error.what());
  }
}

void CheckpointWriter::lock_folder() {
  auto lock = cohort::lock_folder(options_.folder);
  if (!lock)
    throw InvalidInput(
        fmt::format("another run writes checkpoints to '{}'", options_.folder.string()),
        {.advice = "Give each run a folder of its own."});
  lock_ = std::move(*lock);
}

SaveCost CheckpointWriter::save(const Checkpoint& checkpoint, const SaveOptions& options,
                                Deadline deadline) {
  (void)to_json(checkpoint.state);  // complains here rather than in the background
  for (const auto& [name, tensor] : checkpoint.tensors) (void)dtype_of(name, tensor);
  if (options.best && !std::isfinite(options.best->value))
    throw InvalidInput(fmt::format("a checkpoint cannot be the best with {} = {}",
                                   options.best->metric, options.best->value));
  SaveCost cost;
  const auto began = Clock::now();
  flush(deadline);
  cost.waited = Clock::now() - began;
  if (cost.waited > kWaitWorthSaying)
    log::warning(
        "step {} waited {:.1f} s for the checkpoint before it; save less often, or to a "
        "faster disk than that of '{}'",
        checkpoint.state.step, std::chrono::duration<double>(cost.waited).count(),
        options_.folder.string());

  const auto copying = Clock::now();
  auto snapshot =
      std::make_shared<Checkpoint>(Checkpoint{.state = checkpoint.state, .tensors = {}});
  for (const auto& [name, tensor] : checkpoint.tensors)
    snapshot->tensors.emplace(name, snapshot_of(tensor));
  cost.copied = Clock::now() - copying;

  slot_.submit([this, snapshot, options](std::stop_token stop) { write(*snapshot, options, stop); },
               deadline);
  return cost;
}

void CheckpointWriter::write(const Checkpoint& snapshot, const SaveOptions& options,
                             std::stop_token stop) {
  const std::int64_t step = snapshot.state.step;
  write_checkpoint(options_.folder, snapshot, stop);
  if (options.best) mark_best(options_.folder, {step, options.best->metric, options.best->value});
  if (options_.keep_last > 0) remove_old(options_.folder, step, options_.keep_last);
  const auto newest = list_checkpoints(options_.folder).front().step;
  if (newest > step && !std::exchange(warned_of_later_, true))
    log::warning(
        "'{}' holds step {} of an earlier run, past step {}: a resume takes the later one; "
        "remove it, or use another folder",
        options_.folder.string(), newest, step);
}

void CheckpointWriter::flush(Deadline deadline) { slot_.flush(deadline); }

void CheckpointWriter::close(Deadline deadline) {
  slot_.close(deadline);
  lock_.reset();
}

}  // namespace cohort::train
