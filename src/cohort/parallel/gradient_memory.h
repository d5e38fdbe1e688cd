#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cohort/collective/group.h"

namespace cohort::parallel {

// Puts large gradients into the group's memory from the start. LibTorch makes every gradient anew
// in each step; a large one costs the system fresh pages, and then a copy to where the other ranks
// can reach it. While a Use lives on a thread, a CPU tensor made on that thread whose bytes are
// exactly one of `sizes` comes from a pool of group memory instead; when the tensor goes, its
// memory goes back to the pool, for the next step. All other tensors, and other threads, are served
// as before.
//
// How: one allocator for the process, put before LibTorch's own (c10::SetCPUAllocator) when the
// first object is made, and never taken away. A program that replaces the CPU allocator itself
// loses this, and nothing else: gradients are then where its allocator puts them.
//
// Threads: Use is confined to its thread; tensors may go on any thread. Ownership: tensors keep
// their memory, and the group's, alive; `group` must outlive this object. Failure: group memory
// that is used up falls back to LibTorch's allocator.
class GradientMemory {
 public:
  GradientMemory(collective::Group& group, std::vector<std::size_t> sizes);
  ~GradientMemory();
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  class Pool;
  class Use {
   public:
    explicit Use(const GradientMemory& memory);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::shared_ptr<Pool> pool_;
  };

 private:
  std::shared_ptr<Pool> pool_;
};

}  // namespace cohort::parallel
