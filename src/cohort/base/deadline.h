#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace cohort {

// A point in time after which a blocking call gives up. A value: copy it down the call chain, so
// that a call made of several waits ends in time as a whole.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline at(Clock::time_point when) { return Deadline(when); }
  static Deadline after(Clock::duration duration) { return Deadline(Clock::now() + duration); }

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool expired() const { return !is_never() && Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }

  // Not negative; Clock::duration::max() for never().
  Clock::duration remaining() const {
    if (is_never()) return Clock::duration::max();
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }

  // For poll() and epoll_wait(): -1 for never(), rounded up, so that a wait does not end early.
  int poll_timeout_ms() const {
    if (is_never()) return -1;
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
    return static_cast<int>(std::min<decltype(ms)>(ms, INT_MAX));
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace cohort
