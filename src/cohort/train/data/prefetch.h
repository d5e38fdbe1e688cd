#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"

namespace cohort::train {

struct PrefetchOptions {
  int depth = 2;    // results made ahead, at most
  int threads = 1;  // 0: made inside next(), by the caller
};

// produce(0), produce(1), ... produce(count - 1), made ahead by background threads and handed out
// in that order. next() is for one thread. produce() is called from several threads at once when
// there are several.
//
// The first error of produce() comes out of next() in its turn, and out of every next() after it.
// The destructor waits for the calls of produce() under way, at most one a thread.
template <typename T>
class Prefetch {
 public:
  using Produce = std::function<T(std::int64_t)>;

  Prefetch(std::int64_t count, Produce produce, PrefetchOptions options = {})
      : count_(count), produce_(std::move(produce)) {
    if (options.depth < 1 || options.threads < 0)
      throw InvalidInput(
          fmt::format("prefetch: depth must be at least 1 and threads 0 or more, got {} and {}",
                      options.depth, options.threads));
    slots_.resize(static_cast<std::size_t>(options.depth));
    const auto threads =
        std::min<std::int64_t>({std::int64_t{options.threads}, std::int64_t{options.depth}, count});
    for (std::int64_t i = 0; i < threads; ++i)
      threads_.emplace_back([this](std::stop_token stop) { work(stop); });
    in_background_ = options.threads > 0;
  }

  ~Prefetch() {
    for (auto& thread : threads_) thread.request_stop();
  }

  // Nothing after the last one. TimeoutError when the deadline passes first; call again to go on.
  std::optional<T> next(Deadline deadline = Deadline::never()) {
    if (failure_) std::rethrow_exception(failure_);
    if (taken_ == count_) return std::nullopt;
    return in_background_ ? take(deadline) : make();
  }

 private:
  struct Slot {
    std::optional<T> value;
    std::exception_ptr error;
    bool ready() const { return value.has_value() || error; }
  };

  Slot& slot_of(std::int64_t number) {
    return slots_[static_cast<std::size_t>(number) % slots_.size()];
  }

  std::optional<T> make() {
    try {
      return produce_(taken_++);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  std::optional<T> take(Deadline deadline) {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    const auto ready = [&slot] { return slot.ready(); };
    if (deadline.is_never())
      changed_.wait(lock, ready);
    else if (!changed_.wait_until(lock, deadline.when(), ready))
      throw TimeoutError(fmt::format("batch {} is not ready in time", taken_));
    if (slot.error) {
      failure_ = slot.error;
      std::rethrow_exception(failure_);
    }
    std::optional<T> value = std::exchange(slot.value, std::nullopt);
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    return value;
  }

  void work(std::stop_token stop) {
    const auto depth = static_cast<std::int64_t>(slots_.size());
    std::unique_lock lock(mutex_);
    while (true) {
      const auto may_go = [&] { return claimed_ == count_ || claimed_ < taken_ + depth; };
      if (!changed_.wait(lock, stop, may_go) || stop.stop_requested() || claimed_ == count_) return;
      const std::int64_t number = claimed_++;
      lock.unlock();
      Slot made;
      try {
        made.value.emplace(produce_(number));
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (made.error) claimed_ = count_;  // what follows an error is never asked for
      slot_of(number) = std::move(made);
      changed_.notify_all();
    }
  }

  const std::int64_t count_;
  const Produce produce_;
  bool in_background_ = false;
  std::exception_ptr failure_;  // next()'s own

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;   // number n in slot n % depth; guarded by mutex_, as are the next two
  std::int64_t claimed_ = 0;  // begun by some thread
  std::int64_t taken_ = 0;    // handed out
  std::vector<std::jthread> threads_;  // last: stopped and joined before the rest goes
};

}  // namespace cohort::train
