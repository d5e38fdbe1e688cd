#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"
#include "cohort/train/checkpoint/background_slot.h"
#include "cohort/train/checkpoint/checkpoint.h"

namespace cohort::train {

struct CheckpointWriterOptions {
  std::filesystem::path folder;  // made when missing
  std::size_t keep_last = 3;     // 0: all. The best is kept besides.
};

struct SaveOptions {
  // Marks this checkpoint as the best so far: best.json then names it, and it is not removed.
  struct Best {
    std::string metric;
    double value = 0;
  };
  std::optional<Best> best;
};

// What a save() cost the thread that called it.
struct SaveCost {
  std::chrono::nanoseconds waited{};  // for the checkpoint before this one
  std::chrono::nanoseconds copied{};  // to take the snapshot
};

// Writes checkpoints on a thread of its own, at most one at a time. Rank 0 has one; the others
// none.
//
// A checkpoint counts once its files are on the disk: a process killed at any instant, or a full
// disk, leaves the checkpoints before it whole. Failures in the background are thrown by the next
// save(), flush() or close(), once, with the path; that save() saves nothing, a later one may.
//
// Confined to one thread. Holds a lock on the folder as long as it lives. Destroyed without
// close(), it gives up a checkpoint that is under way, and says so.
class CheckpointWriter {
 public:
  // Also removes what a killed writer left in the folder. SystemError when the folder cannot be
  // made or written to; InvalidInput when another writer has it.
  explicit CheckpointWriter(CheckpointWriterOptions options);
  ~CheckpointWriter();

  // Copies the tensors and returns; they may change from then on. Waits for the checkpoint before
  // this one. TimeoutError when that takes past the deadline: this one is then not saved.
  SaveCost save(const Checkpoint& checkpoint, const SaveOptions& options = {},
                Deadline deadline = Deadline::never());

  // Returns when all that was saved is on the disk.
  void flush(Deadline deadline = Deadline::never());

  // flush(), then ends the thread and gives the folder back. The last call; may be repeated.
  void close(Deadline deadline = Deadline::never());

  const std::filesystem::path& folder() const { return options_.folder; }

 private:
  void lock_folder();
  void write(const Checkpoint& snapshot, const SaveOptions& options, std::stop_token stop);

  CheckpointWriterOptions options_;
  UniqueFd lock_;
  bool warned_of_later_ = false;  // the background thread's
  BackgroundSlot slot_;           // last: its job uses the others
};

}  // namespace cohort::train
