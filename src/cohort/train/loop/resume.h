#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "cohort/train/callbacks/callback.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/loop/position.h"
#include "cohort/train/loop/replica_trainer.h"
#include "cohort/train/options/options.h"
#include "cohort/train/sync/agreement.h"

// How fit() begins: do all workers want the same, and where does training stand?
namespace cohort::train {

// What must be the same on all workers, by name, for Agreement::agree(): options and data.
nlohmann::json agreed_values(const TrainerOptions& trainer, const FitOptions& fit,
                             const SampleSource& data);

// How many of them change gradients.
std::size_t gradient_callbacks(std::span<const std::shared_ptr<Callback>> callbacks);

// In a checkpoint's `extra`: the job that made it, and why training was stopped there.
inline constexpr const char* kJob = "job";
inline constexpr const char* kStopReason = "stop_reason";

// Where fit() may go on from.
struct ResumeSources {
  // Folder of this training's checkpoints, where it goes on by itself after a loss. Only those of
  // `job` count, and only those that are past step `after`, where training stands.
  std::string own;
  std::string job;
  std::int64_t after = 0;
  // What the program asked for, a checkpoint's JSON or a folder, where there is none of its own.
  std::string asked;
};

// A checkpoint to go on from, as every replica knows it: the tensors are replica 0's alone, which
// the broadcast at the beginning of fit() gives to the others. Empty: nothing to resume.
class ResumePoint {
 public:
  // Collective, where there are sources: replica 0 looks, all learn what it found. Throws
  // InvalidInput when the checkpoint was made with another seed, batch size or number of shards
  // than `options` asks for.
  static ResumePoint find(Agreement& agreement, int replicas, const ResumeSources& sources,
                          const TrainerOptions& options);

  // How many virtual shards the training has; `otherwise` where there is nothing to resume.
  int shards(int otherwise) const;
  // Why this very training had ended at the checkpoint, where it had.
  std::optional<std::string> stop_reason() const;
  // Puts model, optimizer and callbacks where the checkpoint has them. Returns where training
  // stands; `otherwise` where there is nothing to resume.
  Position restore(ReplicaTrainer& trainer, const Position& otherwise,
                   std::span<const std::shared_ptr<Callback>> callbacks) const;

 private:
  bool is_own_ = false;
  std::optional<TrainingState> state_;
  std::optional<Checkpoint> checkpoint_;  // on replica 0
};

// The parts of restore(): model and optimizer get the checkpoint's tensors; the rest of `state`
// goes to its places, and where training stands is returned.
void restore_tensors(ReplicaTrainer& trainer, const Checkpoint& checkpoint);
Position restore_state(ReplicaTrainer& trainer, const TrainingState& state,
                       std::span<const std::shared_ptr<Callback>> callbacks);

// All that a checkpoint holds, as of now; tensors share the model's memory.
Checkpoint make_checkpoint(ReplicaTrainer& trainer, const Position& position,
                           const TrainerOptions& options,
                           std::span<const std::shared_ptr<Callback>> callbacks);

}  // namespace cohort::train
