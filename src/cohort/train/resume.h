#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cohort/train/callback.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/exchange.h"
#include "cohort/train/fit_loop.h"
#include "cohort/train/options.h"

// How fit() begins: do all workers want the same, and where does training stand?
namespace cohort::train {

// Collective. InvalidInput on every replica, with both sides' values, when options that must be the
// same on all workers are not.
void agree_on_options(Exchange& exchange, const TrainerOptions& trainer, const FitOptions& fit);

// In a checkpoint's `extra`, where training was stopped.
inline constexpr const char* kStopReason = "stop_reason";

// A checkpoint to go on from, as every replica knows it: the tensors are replica 0's alone, which
// the broadcast at the beginning of fit() gives to the others. Empty: nothing to resume.
class ResumePoint {
 public:
  // Collective: replica 0 looks, all learn what it found. `path` is a checkpoint's JSON or a
  // folder; empty: nothing. Throws InvalidInput when the checkpoint was made with another seed,
  // batch size or number of shards than `options` asks for.
  static ResumePoint find(Exchange& exchange, int replicas, const std::string& path,
                          const TrainerOptions& options);

  // How many virtual shards the training has; `otherwise` where there is nothing to resume.
  int shards(int otherwise) const;
  // Why all replicas agreed to end training at the checkpoint, where they did.
  std::optional<std::string> stop_reason() const;
  // Puts model, optimizer and callbacks where the checkpoint has them. Returns where training
  // stands; `otherwise` where there is nothing to resume.
  Position restore(ReplicaTrainer& trainer, const Position& otherwise,
                   std::span<const std::shared_ptr<Callback>> callbacks) const;

 private:
  std::optional<TrainingState> state_;
  std::optional<Checkpoint> checkpoint_;  // on replica 0
};

// The parts of restore(): model and optimizer get the checkpoint's tensors; the rest of `state`
// goes to its places, and where training stands is returned.
void restore_tensors(ReplicaTrainer& trainer, const Checkpoint& checkpoint);
Position restore_state(ReplicaTrainer& trainer, const TrainingState& state,
                       std::span<const std::shared_ptr<Callback>> callbacks, std::size_t metrics);

// All that a checkpoint holds, as of now; tensors share the model's memory.
Checkpoint make_checkpoint(ReplicaTrainer& trainer, const Position& position,
                           const TrainerOptions& options,
                           std::span<const std::shared_ptr<Callback>> callbacks);

}  // namespace cohort::train
