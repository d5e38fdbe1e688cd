#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What this machine could do at best for one step of a model of `bytes` bytes between `workers` and
// `servers` processes. Seconds a step, the median of a few; every one is verified.
namespace cohort::bench {

// Plain loopback sockets: every worker sends the model to the servers, each its share, while they
// send as much back; two threads a connection and side, nothing is looked at.
double raw_tcp_seconds(std::uint64_t bytes, int workers, int servers);

// The least passes over memory that the step needs, with all processes at it at once and none
// waiting for another. Worker: copy the gradient to where the server sees it, copy the values from
// there. Server: for its share read every worker's gradient, the values and the momentum, write the
// new values and the new momentum elsewhere.
double raw_memory_seconds(std::uint64_t bytes, int workers, int servers);

// The server's part of that alone, for one worker: processor time of the bare loop, caches cold.
double plain_update_seconds(std::uint64_t bytes);

// Leaves nothing in the caches, as a backward pass does between two pushes: a small model would
// stay there and look cheaper by the byte than a large one.
class CacheSweep {
 public:
  void operator()() {
    for (std::size_t i = 0; i < memory_.size(); i += 64) ++memory_[i];
  }

 private:
  std::vector<unsigned char> memory_ = std::vector<unsigned char>(std::size_t{96} << 20);
};

}  // namespace cohort::bench
