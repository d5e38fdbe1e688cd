#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cohort/collective/reduction/reduce_tree.h"
#include "cohort/ps/rules/update_rule.h"
#include "cohort/ps/server/aggregation.h"

namespace cohort::ps {

// Makes one gradient of the contributions to an update.
//
// Of all workers: the tree over the shards' nodes, not scaled, since each worker weighed its loss
// by its share of the samples: the bits of an all-reduce over the same shards. Of some: each
// worker's nodes summed in their order, the workers, ascending, as leaves of a tree, the sum
// divided by the sum of their weights. Keeps scratch memory as large as the largest it was asked
// for.
//
// Threads: confined to one.
class Combiner {
 public:
  Combiner(int workers, int shards);

  int nodes(int worker) const;  // arrays in a contribution of this worker

  // `used`: ascending by worker, not empty; each has nodes(worker) arrays of `elements`, one after
  // the other. The result is a contribution itself where nothing has to be done, or scratch: valid
  // until the next call.
  std::span<const std::byte> combine(std::span<const Contribution* const> used, ElementType type,
                                     std::size_t elements);

 private:
  const std::byte* sum_nodes(const Contribution& contribution, ElementType type,
                             std::size_t elements, std::vector<std::byte>& scratch) const;

  int workers_;
  std::vector<int> nodes_;  // by worker
  std::map<ElementType, collective::TreeReducer> all_;
  std::vector<std::byte> result_;
  std::vector<std::vector<std::byte>> partials_;  // by place among those used
};

// The first element that is not finite, of one array or of several one after the other; `elements`
// when all are.
std::size_t first_not_finite(std::span<const std::byte> bytes, ElementType type);

}  // namespace cohort::ps
