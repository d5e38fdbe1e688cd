#pragma once

#include <atomic>
#include <cstdint>

#include "bench/processes.h"
#include "cohort/base/deadline.h"
#include "cohort/transport/futex.h"

namespace cohort::bench {

// Where a number of processes, forked after it was made, meet again and again.
class Gate {
 public:
  explicit Gate(int size) : state_(1), size_(static_cast<std::uint32_t>(size)) {}

  // Returns when all of them have called it. Throws TimeoutError.
  void meet(Deadline deadline) {
    State& state = state_[0];
    const std::uint32_t round = state.round.load();
    if (state.arrived.fetch_add(1) + 1 == size_) {
      state.arrived = 0;
      state.round = round + 1;
      transport::futex_wake_all(state.round);
      return;
    }
    while (state.round.load() == round)
      if (!transport::futex_wait(state.round, round, deadline))
        throw TimeoutError("the processes of the benchmark did not come together");
  }

 private:
  struct State {
    std::atomic<std::uint32_t> arrived, round;
  };
  Shared<State> state_;
  std::uint32_t size_;
};

}  // namespace cohort::bench
