#pragma once

#include <memory>

#include "cohort/collective/reduction/shards.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/loader.h"
#include "cohort/train/loop/position.h"

namespace cohort::train {

// The batches of a replica's own shards, step after step, read ahead within an epoch.
// Confined to the replica's thread.
class EpochLoader {
 public:
  EpochLoader(SourcePtr data, BatchPlan plan, std::uint64_t seed, PrefetchOptions prefetch)
      : data_(std::move(data)), plan_(std::move(plan)), seed_(seed), prefetch_(prefetch) {}

  const BatchPlan& plan() const { return plan_; }
  const SampleSource& data() const { return *data_; }

  // Gives the batches of the step at `position`, one for each of `own`, in ascending order. Goes on
  // where the last step ended, or begins anew: for another epoch, for other shards, for a step that
  // is done again. `steps_per_epoch`: where reading ahead ends.
  Loader& at(const Position& position, collective::ShardRange own, std::int64_t steps_per_epoch);
  void reset();  // reads no further

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

  SourcePtr data_;
  BatchPlan plan_;
  std::uint64_t seed_;
  PrefetchOptions prefetch_;
  std::unique_ptr<Loader> loader_;
  Next next_;
};

}  // namespace cohort::train
