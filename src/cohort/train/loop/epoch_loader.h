#pragma once

#include <chrono>
#include <memory>

#include "cohort/collective/reduction/shards.h"
#include "cohort/train/data/batch_maker.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/loader.h"
#include "cohort/train/loop/position.h"

namespace cohort::train {

// The batches of a replica's own shards, step after step, read ahead within an epoch.
// Confined to the replica's thread.
class EpochLoader {
 public:
  EpochLoader(BatchMakerPtr maker, BatchPlan plan, std::uint64_t seed, PrefetchOptions prefetch)
      : maker_(std::move(maker)), plan_(std::move(plan)), seed_(seed), prefetch_(prefetch) {}

  const BatchPlan& plan() const { return plan_; }

  // Gives the batches of the step at `position`, one for each of `own`, in ascending order. Goes on
  // where the last step ended, or begins anew: for another epoch, for other shards, for a step that
  // is done again. `steps_per_epoch`: where reading ahead ends.
  Loader& at(const Position& position, collective::ShardRange own, std::int64_t steps_per_epoch);
  void reset();  // reads no further

  // Time in which the replica stood still for a batch, of all steps.
  std::chrono::nanoseconds waited() const;

 private:
  struct Next {  // what the loader gives next
    std::int64_t epoch = -1;
    std::int64_t step = -1;
    int first_shard = 0;
    int shards = 0;
    bool operator==(const Next&) const = default;
  };
  std::unique_ptr<Loader> load(const Position& position, collective::ShardRange own,
                               std::int64_t steps_per_epoch) const;

  BatchMakerPtr maker_;
  BatchPlan plan_;
  std::uint64_t seed_;
  PrefetchOptions prefetch_;
  std::unique_ptr<Loader> loader_;
  Next next_;
  std::chrono::nanoseconds waited_before_{0};  // for loaders that are gone
};

}  // namespace cohort::train
