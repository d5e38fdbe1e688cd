#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/parallel/gradients/replica.h"
#include "cohort/train/model/sums.h"

namespace cohort::train {

// Sums of numbered items (the shards of a step, the batches of an evaluation) that the replicas of
// a job have computed apart. One all-reduce of a table in which every row is zero but at its owner;
// rows are then added in their order, so that it does not matter which replica had which. The counts
// of metrics, which are exact in any order, are there once, behind the rows.
// A value, made by one collective call.
class SumsTable {
 public:
  // Collective. `mine` are the items [first, first + mine.size()) of `items`; `none`: sums of nothing,
  // of the shape of all. `flags` travel along: on return each is the sum over all replicas.
  SumsTable(const parallel::Replica& replica, std::span<const Sums> mine, std::int64_t first,
            std::int64_t items, const Sums& none, std::span<double> flags, Deadline deadline);

  Sums total() const;
  double samples(std::int64_t item) const;
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  std::int64_t items_;
  Sums none_;
  std::vector<double> table_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
