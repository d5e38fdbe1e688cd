#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/capi/execution/failure.h"
#include "cohort/capi/negotiation/signature.h"

namespace cohort::capi {

struct TensorMemory {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

// A result whose memory was asked for when its shape was known, or is the request's own.
struct Result {
  std::vector<std::int64_t> shape;
  std::byte* memory = nullptr;
  std::unique_ptr<std::byte[]> own;  // where the library allocated
};

// One request of this rank: what it asks for, its memory, and how it ended.
//
// Threads: the caller fills it in; from its submission to its end it belongs to the engine that
// carries it out. is_over() may be asked at any time; once it is true, the results are read-only
// and any thread may read them.
class Request {
 public:
  using Clock = std::chrono::steady_clock;

  SignatureRef signature;
  std::vector<TensorMemory> memory;    // of signature->tensors
  std::vector<std::byte*> partials;    // shard_sum
  cohort_allocate allocate = nullptr;  // nullptr: the request allocates
  cohort_done done = nullptr;
  void* user = nullptr;
  Clock::time_point submitted{};

  std::vector<Result> results;                // of tensors whose memory is not the caller's
  std::vector<std::int64_t> received_splits;  // all_to_all
  std::int64_t value = 0;                     // join: the last rank; add_set: its number
  Failure failure;

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // Memory for result `index` in that shape. Where the caller's function gives none, the request
  // takes its own, so that the other ranks can go on, and fails.
  std::byte* allocate_result(std::size_t index, std::vector<std::int64_t> shape);
  // Everything about it is final.
  void end() { over_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> over_ = false;
};
using RequestRef = std::shared_ptr<Request>;

}  // namespace cohort::capi
