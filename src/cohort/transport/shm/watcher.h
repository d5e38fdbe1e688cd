#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/transport/arena.h"

namespace cohort::transport::shm {

// A thread that sleeps until a process of the arena's table ends, and then marks its rank dead.
// Uses no CPU while they live. Confined to its owner's thread; the destructor joins.
class Watcher {
 public:
  // `arena` must outlive this; every member has joined.
  explicit Watcher(Arena& arena);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void run();

  Arena& arena_;
  std::vector<std::pair<int, UniqueFd>> peers_;  // (rank, pidfd)
  UniqueFd stop_;                                // eventfd
  std::thread thread_;
};

}  // namespace cohort::transport::shm
