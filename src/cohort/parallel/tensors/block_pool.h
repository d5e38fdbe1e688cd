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

}  // namespace cohort::parallel
