#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/collective/reduction/slices.h"

namespace cohort::collective {

// Sums values over all virtual shards of a job, of which each rank holds the partials of its run
// (ShardPlan::nodes()). The result is the tree over the shards: the same bits for any number of
// ranks.
//
// One call for f32 and f64 (all four types where every rank has one shard), where the runs are
// nodes of the tree and the ranks are their tree, as with a power of two of shards a rank: one
// all_reduce, in place. Otherwise, window by window: rank j gets slice j of every rank's partials
// (all_to_all_v), evaluates the tree, and every rank gets the slices (all_gather_v). A rank with k
// nodes sends k B (n-1)/n bytes, then B (n-1)/n.
//
// reduce_scatter() leaves each rank its own slice of the sum only: one reduce_scatter and one reduce
// of the rest where all_reduce() is one call, otherwise the same windows without the second half.
//
// Threads: confined to one at a time. `group` must outlive it. Failure: as Group's calls.
class ShardReducer {
 public:
  // `runs`: see runs_of. A rank with an empty run contributes nothing, and gets the sum.
  ShardReducer(Group& group, int shards, std::vector<ShardRange> runs = {});

  const ShardPlan& plan() const { return plans_[static_cast<std::size_t>(group_.rank())]; }

  // partials[i] has the `elements` values of plan().nodes()[i]: a single shard's in `dtype`, a
  // larger node's in its accumulator type (f32 for f16 and bf16). `result` is in `dtype`, and may
  // be the same memory as one of them that has this type; group memory is fastest. The sum is
  // multiplied by `post_scale` before it is rounded. Collective. `dtype`: f32, f64, f16, bf16.
  void all_reduce(std::span<std::byte* const> partials, std::byte* result, std::size_t elements,
                  DataType dtype, double post_scale = 1, CallOptions options = {});

  // The same sum, of which rank r gets counts[r] elements in `result`, in the ranks' order. All
  // counts but the last are the same, and that is no smaller. `result` is other memory than the
  // partials.
  void reduce_scatter(std::span<std::byte* const> partials, std::byte* result,
                      std::span<const std::size_t> counts, DataType dtype, double post_scale = 1,
                      CallOptions options = {});

 private:
  bool is_direct(DataType dtype) const;
  TreeReducer reducer_of_all(const Reduction& reduction) const;
  void exchange(std::span<std::byte* const> partials, std::byte* result, std::size_t elements,
                const TreeReducer& reducer, const Reduction& reduction, const CallOptions& options);
  void reduce_slices(std::span<std::byte* const> partials, std::span<const Range> slices,
                     std::byte* mine, const TreeReducer& reducer, const Reduction& reduction,
                     const CallOptions& options);

  Group& group_;
  std::vector<ShardPlan> plans_;  // of every rank
  bool all_own_;                  // no rank's run is empty
  bool same_tree_;                // the ranks' runs are nodes, and their tree is that of the ranks
  Buffer sending_;
  Buffer receiving_;
};

}  // namespace cohort::collective
