#pragma once

#include <chrono>
#include <cstddef>

namespace cohort::parallel {

// What happened to a bucket in one step, for traces.
struct BucketEvent {
  int bucket;
  std::size_t bytes;
  std::chrono::steady_clock::time_point ready, begun, ended;
};

}  // namespace cohort::parallel
