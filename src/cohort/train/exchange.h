#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/gradients/replica.h"
#include "cohort/parallel/tables/table_module.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/metric.h"
#include "cohort/train/options.h"
#include "cohort/train/precision.h"

namespace cohort::train {

// One step's place in the training, and how many samples it has.
struct StepPlace {
  std::int64_t epoch = 0;
  std::int64_t step = 0;     // of the whole training
  std::int64_t first = 0;    // of its samples, in the epoch's order
  std::int64_t samples = 0;  // over all replicas
  std::int64_t own_samples = 0;
};

// What is trained, as an Exchange sees it. All of it is lent and must outlive the Exchange.
struct Training {
  torch::nn::Module& module;
  torch::optim::Optimizer& optimizer;
  LossScale& loss_scale;
  const TrainerOptions& options;
  int shards = 1;  // virtual shards of a step
};

// What the callbacks of a replica's process ask for.
struct Wishes {
  std::string stop;        // why training should end; empty: it should not (FitState::kInterrupted)
  bool broadcast = false;  // worker 0's values, everywhere
};

class ElasticExchange;

// How one replica agrees with the others of its job, while ReplicaTrainer and FitLoop say what a
// replica does: one implementation for replicas that add up their gradients among themselves
// (all_reduce_exchange.h), one for such replicas in an elastic job (elastic_exchange.h), one for
// parameter servers (server_exchange.h).
//
//   agree, text_of_first           before there is a model
//   attach                         this is what we train
//   begin                          where does training stand?
//   begin_step, for each own shard: begin_shard, backward, end_shard, then finish_step
//   follow                         after every event that callbacks saw
//   settle                         training is over
//
// Every replica makes the same calls.
// Threads: confined to the replica's thread. Ownership: `replica`'s group or servers must outlive
// it. Failure: InvalidInput for what does not fit together, and what the group or the servers
// throw; it is then only good to destroy.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // InvalidInput that names the first of `values` (an object) that another replica has otherwise.
  virtual void agree(const nlohmann::json& values) = 0;
  // What replica 0 makes, on every replica. Only called there, and only where nobody has it yet.
  virtual std::string text_of_first(const std::function<std::string()>& make) = 0;

  virtual void attach(const Training& training) = 0;
  virtual collective::ShardRange own_shards() const = 0;
  virtual parallel::GradientSync& gradients() = 0;

  // Not empty: nothing is to be trained, this is what would be placed where.
  virtual std::string dry_run() const { return {}; }
  // Training begins, or goes on, after `step` steps. Returns how many this replica has behind it:
  // more than `step` where its process was started anew in the middle.
  virtual std::int64_t begin(std::int64_t step) = 0;
  // Replica 0's parameters, buffers and optimizer state, everywhere.
  virtual void take_values_of_first() = 0;
  // Buffers that steps do not keep equal: replica 0's, everywhere.
  virtual void take_buffers_of_first() = 0;

  virtual void begin_step(const StepPlace& place) = 0;
  virtual void begin_shard(int shard) = 0;
  virtual void end_shard(double weight) = 0;
  // The update is made and the parameters are the next step's. `mine` has the sums of each own
  // shard. Returns those over all shards of all replicas.
  virtual Sums finish_step(const StepPlace& place, std::span<const Sums> mine) = 0;
  // How many steps the training has behind it after finish_step(`place`): more than that one where
  // the others went on without this replica.
  virtual std::int64_t steps_done(const StepPlace& place) const { return place.step + 1; }
  // Whether a loss that is not finite is somebody else's business.
  virtual bool tolerates_not_finite() const { return false; }

  // L2 norm of the last step's averaged gradient, before clipping; NaN where it was not measured.
  virtual double gradient_norm() const { return std::numeric_limits<double>::quiet_NaN(); }

  // What all replicas do: end training, take_values_of_first().
  struct Agreed {
    bool stop = false;
    bool interrupted = false;  // stop, and nobody asked for the end
    bool broadcast = false;
  };
  virtual Agreed follow(const Wishes& wishes) = 0;
  // The parameters are what all of training has made of them, on every replica.
  virtual void settle() = 0;
  // Module and optimizer hold the job's whole state, for a checkpoint; the embedding tables are
  // returned. Of replica 0 alone.
  virtual parallel::TableImages bring_state_home() = 0;
  // The tables as after `step` steps, in the place of what they hold; before begin(). Of replica 0
  // alone.
  virtual void restore_tables(parallel::TableImages images, std::int64_t step) = 0;
  // What it has to say about an epoch, beside the loss. Of replica 0.
  virtual void add_logs(Logs&) {}

  // Evaluation of `items` batches: which of them this replica takes, and the sums of all, in their
  // order. Where `mine` are the items [first, first + mine.size()).
  virtual bool validates() const = 0;  // in the middle of a training
  virtual void refresh() = 0;          // before an evaluation that the user asked for
  virtual Range share(std::int64_t items) const = 0;
  virtual Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items) = 0;
  // All replicas' rows in their order.
  virtual torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) = 0;

  virtual std::chrono::nanoseconds waited() const = 0;  // for other replicas

  // This object, where replicas come and go; else null.
  virtual ElasticExchange* elastic() { return nullptr; }
};

// The one that fits `replica`.
std::unique_ptr<Exchange> make_exchange(const parallel::Replica& replica,
                                        std::chrono::milliseconds timeout);

// A model's tensors as the parts of `parallel` take them.
parallel::NamedTensors named(const torch::OrderedDict<std::string, torch::Tensor>& tensors);

}  // namespace cohort::train
