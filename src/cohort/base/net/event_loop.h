#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// One thread's loop over file descriptors and timers, on epoll.
//
// Threads: confined to the thread that calls run(), except post() and stop(), which any thread may
// call at any time. Callbacks run on the loop's thread and may add, change and remove descriptors
// and timers, their own included.
// Ownership: the loop owns no descriptor; remove() one before closing it.
// Failure: an exception that leaves a callback leaves run().
class EventLoop {
 public:
  using Clock = Deadline::Clock;
  using FdCallback = std::function<void(std::uint32_t events)>;  // EPOLLIN, EPOLLOUT, EPOLLHUP, ...
  using Callback = std::function<void()>;
  using TimerId = std::uint64_t;

  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Watches `fd` for `events` (level-triggered).
  void add(int fd, std::uint32_t events, FdCallback callback);
  void modify(int fd, std::uint32_t events);
  // After this call the callback does not run again, not even for an event already fetched.
  void remove(int fd);

  TimerId call_at(Clock::time_point when, Callback callback);
  TimerId call_after(Clock::duration delay, Callback callback) {
    return call_at(Clock::now() + delay, std::move(callback));
  }
  void cancel(TimerId id);  // unknown or past timers are ignored

  void post(Callback callback);  // runs on the loop's thread, soon
  void stop();                   // run() returns after the current round of callbacks

  void run();
  // One round: waits until something happens or the deadline passes.
  void run_once(Deadline deadline);

 private:
  struct Watch {
    FdCallback callback;
  };
  void run_posted();
  void run_timers();

  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd: post() and stop() interrupt epoll_wait
  std::unordered_map<int, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<Clock::time_point, TimerId>, Callback> timers_;
  std::unordered_map<TimerId, Clock::time_point> timer_times_;
  TimerId next_timer_ = 1;

  std::mutex mutex_;  // guards posted_ and stopping_
  std::vector<Callback> posted_;
  bool stopping_ = false;
};

}  // namespace cohort
