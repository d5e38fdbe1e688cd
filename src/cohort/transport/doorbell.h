#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "cohort/base/deadline.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/transport/futex.h"

namespace cohort::transport {

// How long to look before sleeping: `yields` times, each time `looks` looks and then the core is
// offered to other processes. Going to sleep and being woken costs some 50 us; a peer that
// waits for this very core gets it at the first yield.
struct Patience {
  int yields = 0;
  int looks = 1;
};

// Where one rank sleeps until a peer has news. Lives in memory that the ranks share; all zeros is
// a valid, silent bell. Thread-safe, across processes too.
//
// The promise: a process that changes shared state with a seq_cst store and then rings, wakes every
// sleeper whose condition reads that state with seq_cst loads. Ringing a bell without sleepers
// costs one load.
class alignas(64) Doorbell {
 public:
  void ring() {
    if (sleepers_.load() == 0) return;
    epoch_.fetch_add(1);
    futex_wake_all(epoch_);
  }

  // Returns when `ready()` is true (true) or the deadline has passed (false). Throws Interrupted
  // (wait_interrupt.h).
  template <typename Ready>
  bool wait(Ready&& ready, Patience patience, Deadline deadline) {
    for (int i = 0; i < patience.yields; ++i) {
      for (int look = 0; look < patience.looks; ++look) {
        if (ready()) return true;
        __builtin_ia32_pause();
      }
      ::sched_yield();
    }
    while (true) {
      WaitInterrupt::ask();
      const std::uint32_t seen = epoch_.load();
      sleepers_.fetch_add(1);
      const bool done = ready();
      const bool in_time = done || futex_wait(epoch_, seen, WaitInterrupt::limit(deadline));
      sleepers_.fetch_sub(1);
      if (done) return true;
      if (!in_time && deadline.expired()) return ready();
    }
  }

 private:
  std::atomic<std::uint32_t> epoch_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace cohort::transport
