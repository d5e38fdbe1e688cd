#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/train/data/batch_maker.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/prefetch.h"

namespace cohort::train {

// Batches of any type, made ahead by background threads (see Prefetch), in order.
//   Loader loader(source, plan.steps_per_epoch(), [&](std::int64_t step) {
//     const auto mine = epoch.indices(step, shards_of(rank, size, shards));
//     return std::vector<std::int64_t>(mine.begin(), mine.end());
//   }, {.seed = seed, .epoch = e});
//   while (auto batch = loader.next()) ...
// Confined to one thread. An error of the data set comes out of next() in its turn and says which
// batch; its type is kept when it is Cohort's. Destroying a loader midway waits for the batches
// being made, at most one a thread.
class Loader {
 public:
  // The samples of batch `number`. Called from the background threads.
  using IndexLists = std::function<std::vector<std::int64_t>(std::int64_t number)>;

  Loader(SourcePtr source, std::int64_t batches, IndexLists indices, DrawKey key,
         PrefetchOptions options = {});
  // Of the maker's source, made as it makes them.
  Loader(BatchMakerPtr maker, std::int64_t batches, IndexLists indices, DrawKey key,
         PrefetchOptions options = {});
  // Given lists.
  Loader(SourcePtr source, std::vector<std::vector<std::int64_t>> indices, DrawKey key,
         PrefetchOptions options = {});
  // The steps [first_step, steps_per_epoch) of an epoch, a run of shards of each: what one worker
  // loads.
  Loader(SourcePtr source, std::shared_ptr<const EpochPlan> epoch, ShardRange shards,
         std::int64_t first_step = 0, PrefetchOptions options = {});

  // Nothing after the last batch. TimeoutError when the deadline passes first. A batch that is made
  // on a device is for work on this thread's current stream.
  std::optional<AnyBatch> next(Deadline deadline = Deadline::never());

  // Time that next() took: for batches that were not made yet.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  Prefetch<MadeBatch> prefetch_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace cohort::train
