#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cohort/collective/group.h"

namespace cohort::parallel {

// Blocks of memory that are used again: what a tensor gives back waits for the next of its size.
//
// Threads: thread-safe. Ownership: blocks that are out keep the pool alive.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  using Make = std::function<std::shared_ptr<void>(std::size_t bytes)>;  // nullptr: there is none

  explicit BlockPool(Make make) : make_(std::move(make)) {}
  static std::shared_ptr<BlockPool> of_this_process();  // of ordinary memory, for the caller alone
  static std::shared_ptr<BlockPool> of_group(collective::Group& group);

  struct Block {
    std::shared_ptr<BlockPool> pool;
    std::size_t bytes = 0;
    std::shared_ptr<void> memory;
  };
  std::unique_ptr<Block> take(std::size_t bytes);  // nullptr: there is none
  static void give_back(std::unique_ptr<Block> block);
  // Frees what waits, and from now on what comes back; take() has nothing more to give.
  void close();

 private:
  Make make_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::size_t, std::vector<std::shared_ptr<void>>> waiting_;
};

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
