#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/parallel/tensors/block_pool.h"

namespace cohort::parallel {

// Keeps the memory of large gradients. LibTorch makes every gradient anew in each step; a large one
// costs the system fresh pages, and then a copy to where the other ranks can reach it. While a Use
// lives on a thread, a CPU tensor made on that thread whose bytes are exactly one of `sizes` comes
// from a pool instead: from the group's memory where other ranks are to read it, from `own` where
// it only goes into this rank's sum. When the tensor goes, its memory goes back to the pool, for
// the next step. All other tensors, and other threads, are served as before.
//
// How: one allocator for the process, put before LibTorch's own (c10::SetCPUAllocator) when the
// first Use is made, and never taken away. A program that replaces the CPU allocator itself
// loses this, and nothing else: gradients are then where its allocator puts them.
//
// Threads: Use is confined to its thread; tensors may go on any thread. Ownership: tensors keep
// their memory, and the group's, alive; `group` must outlive this object, `own` may go on to the
// next one. Failure: group memory that is used up falls back to LibTorch's allocator.
class GradientMemory {
 public:
  enum class Reader { this_rank, other_ranks };

  explicit GradientMemory(collective::Group& group,
                          std::shared_ptr<BlockPool> own = BlockPool::of_this_process());
  ~GradientMemory();
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  class Use {
   public:
    // `sizes` must outlive it.
    Use(const GradientMemory& memory, Reader reader, const std::vector<std::size_t>& sizes);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

 private:
  std::shared_ptr<BlockPool> shared_, own_;
};

}  // namespace cohort::parallel
