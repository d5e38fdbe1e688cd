#pragma once

#include <torch/torch.h>

#include <memory>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::parallel {

// Keeps a model's buffers (batch-norm statistics) the same on all replicas, and independent of
// their number. In a step every shard starts from the buffers as they were before it; afterwards
// floating-point buffers become the weighted sum of the shards' values in tree order, integer
// buffers (counters) the largest, boolean ones shard 0's.
//
//   buffers.begin_shard();  forward();  buffers.end_shard(weight);  // all weights sum to 1
//   buffers.finish(deadline);
//
// With no buffers every call returns at once. Threads, ownership and failure as GradientSync's.
class BufferSync {
 public:
  // `runs`: as GradientSyncOptions::runs. A rank without shards calls finish() only.
  BufferSync(collective::Group& group, NamedTensors buffers, int shards,
             std::vector<collective::ShardRange> runs = {});
  ~BufferSync();
  BufferSync(const BufferSync&) = delete;
  BufferSync& operator=(const BufferSync&) = delete;

  void begin_shard();
  void end_shard(double weight);
  void finish(Deadline deadline);  // reduce(), apply()

  void discard_step();  // in place of finish(): the step is begun again
  // Whether a step may be recorded into a CUDA graph.
  bool can_be_captured() const;

  // The same in two halves: what needs the others, then what changes the buffers.
  void reduce(Deadline deadline);
  void apply();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::parallel
