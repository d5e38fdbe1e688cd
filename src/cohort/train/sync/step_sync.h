#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/tables/table_module.h"
#include "cohort/train/model/precision.h"
#include "cohort/train/model/sums.h"
#include "cohort/train/options/options.h"

namespace cohort::train {

// Which step of the training, and how many samples it has.
struct StepInfo {
  std::int64_t epoch = 0;
  std::int64_t step = 0;     // of the whole training
  std::int64_t first = 0;    // of its samples, in the epoch's order
  std::int64_t samples = 0;  // over all replicas
  std::int64_t own_samples = 0;
  bool may_request = false;  // a callback of this replica may ask for something at the step's end
  // The weight of a sample that shards' losses were divided by, beside the number of samples: a
  // power of two, so that the bits do not depend on it. It keeps gradients in the range of f16.
  double weight_unit = 1;
};

struct StepResult {
  Sums sums;                       // over all shards of all replicas
  std::int64_t steps_done = 0;     // of the training: more than this one where others went on alone
  bool may_request = true;         // a callback of some replica may ask for something now
  bool may_be_not_finite = false;  // a loss that is not finite was left out elsewhere
  // What makes the mean over the step's weight of the summed gradients; 0: there was no weight, and
  // no update.
  double gradient_factor = 1;
  // L2 norm of the averaged gradient, before clipping; NaN where it was not measured.
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
};

// What is trained, as a StepSync sees it. All of it is lent and must outlive the StepSync.
struct SyncedModel {
  torch::nn::Module& module;
  torch::optim::Optimizer& optimizer;
  LossScale& loss_scale;
  const TrainerOptions& options;
  int shards = 1;  // virtual shards of a step
  Sums none = {};  // of the shape that a step's sums have
  // Called when the gradients are what the update is to be made of, but for clipping; may change
  // them. Not by parameter servers.
  std::function<void()> before_update = {};
};

// How the model of one replica stays that of the others: by adding up gradients among themselves
// (all_reduce_sync.h), the same in an elastic job (elastic_sync.h), or by parameter servers
// (server_sync.h).
//
//   attach                         this is what we train
//   begin                          where does training stand?
//   begin_step, for each own shard: begin_shard, backward, end_shard, then finish_step
//   finish_training
//
// Every replica makes the same calls.
// Threads: confined to the replica's thread. Ownership: the replica's group or servers must outlive
// it. Failure: InvalidInput for what does not fit together, and what the group or the servers
// throw; it is then only good to destroy.
class StepSync {
 public:
  virtual ~StepSync() = default;

  // Refuses, with InvalidInput, a model that could not be kept like the others'. Every replica asks
  // before it makes its copy, so that all of them end with the same sentence.
  virtual void require_trainable(torch::nn::Module& /*module*/) const {}
  virtual void attach(const SyncedModel& model) = 0;
  virtual collective::ShardRange own_shards() const = 0;
  virtual parallel::GradientSync& gradients() = 0;

  // Not empty: nothing is to be trained, this is what would be placed where.
  virtual std::string dry_run() const { return {}; }
  // Training begins, or goes on, after `step` steps. Returns how many this replica has behind it:
  // more than `step` where its process was started anew in the middle.
  virtual std::int64_t begin(std::int64_t step) = 0;

  virtual void begin_step(const StepInfo& info) = 0;
  virtual void begin_shard(int shard) = 0;
  virtual void end_shard(double weight) = 0;
  // The update is made and the parameters are the next step's. `mine` has the sums of each own
  // shard.
  virtual StepResult finish_step(const StepInfo& info, std::span<const Sums> mine) = 0;
  // The parameters are what all of training has made of them, on every replica.
  virtual void finish_training() = 0;

  // finish_step() in two calls, between which other steps may be made: while sums stay on a device,
  // nothing waits for it. The update is made with a gradient_factor that is known before; its
  // gradient's norm is returned, on its device, or an undefined tensor where none is asked for.
  // read_step() is collective, of each step in its order. False: steps are finished at once.
  virtual bool can_defer() const { return false; }
  // `recorded`: it is called for a graph (below).
  virtual torch::Tensor finish_unread_step(double gradient_factor, bool recorded);
  virtual StepResult read_step(const StepInfo& info, std::span<const Sums> mine);

  // Whether begin_shard() to finish_unread_step() may be recorded into a CUDA graph, now that at
  // least one step was made: they then wait for nothing and depend on no number of the host but
  // those of recorded_constants(). before_replay() and after_replay() do what of the update is the
  // host's.
  virtual bool can_be_recorded() { return false; }
  virtual std::vector<double> recorded_constants() const { return {}; }
  virtual void before_replay() {}
  virtual void after_replay() {}
  // In place of end_shard(), or after a step that was only recorded: it is to be made again. False:
  // that cannot be, a part of it was taken.
  virtual bool discard_shard() { return false; }

  // Replica 0's parameters, buffers and optimizer state, everywhere.
  virtual void broadcast_from_first() = 0;
  // Buffers that steps do not keep equal: replica 0's, everywhere.
  virtual void broadcast_buffers() = 0;
  // Module and optimizer hold the job's whole state, for a checkpoint; the embedding tables are
  // returned. Of replica 0 alone.
  virtual parallel::TableImages gather_state() = 0;
  // The checkpoint is made: what gather_state() brought together is not needed any more.
  virtual void release_state() {}
  // The tables as after `step` steps, in the place of what they hold; before begin(). Of replica 0
  // alone.
  virtual void restore_tables(parallel::TableImages images, std::int64_t step) = 0;

  virtual std::chrono::nanoseconds waited() const = 0;  // for other replicas
};

}  // namespace cohort::train
