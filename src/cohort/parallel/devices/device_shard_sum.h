#pragma once

#include <torch/torch.h>

#include <span>
#include <vector>

#include "cohort/collective/device/device_group.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::parallel {

// collective::ShardReducer for tensors on GPUs: the sum over all virtual shards of a job, of which
// each rank holds the partials of its run. Bytes are moved by the device group, which adds nothing;
// LibTorch's kernels add in the order of the tree. So the bits are those of any other number of
// ranks, and those of the host's sum.
//
// Steps: rank j gets slice j of every rank's partials (all_to_all_v), adds them up in the tree's
// order, and every rank gets the slices (all_gather_v). A rank with k partials of B bytes sends
// k B (n-1)/n, then B (n-1)/n. Two ranks with one partial each make one all_reduce: there is one
// order in which two numbers can be added.
//
// Everything is put on the current stream; the host waits for nothing.
// Threads: confined to one at a time. `device` must outlive it. Failure: as DeviceGroup's calls.
class DeviceShardSum {
 public:
  // `device`: nullptr where there is one rank. `runs`: see collective::runs_of. `any_order`: one
  // all_reduce, in the order that the device group likes, of a sum on each rank.
  DeviceShardSum(collective::DeviceGroup* device, int rank, int ranks, int shards,
                 std::vector<collective::ShardRange> runs, bool any_order);

  // How this rank adds up its own shards before all_reduce().
  const collective::ShardPlan& plan() const { return own_; }
  bool has_one_shard_each() const;  // every rank

  // partials[i]: one dimension, contiguous, the values of plan().nodes()[i]: of `result`'s type for a
  // single shard, of the accumulator's for a larger node. `result` may be one of them. Collective.
  void all_reduce(std::span<const torch::Tensor> partials, const torch::Tensor& result,
                  double scale) const;

 private:
  bool is_direct(torch::ScalarType type) const;
  void exchange(std::span<const torch::Tensor> partials, const torch::Tensor& result,
                double scale) const;

  collective::DeviceGroup* device_;
  std::size_t rank_, ranks_;
  bool any_order_;
  std::vector<collective::ShardPlan> plans_;  // of every rank
  collective::ShardPlan own_;
};

}  // namespace cohort::parallel
