#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cohort::service {

// A thread that calls a function again and again; the function says how long to wait until the next
// time. start() and stop() belong to one thread, in turns; the function must not throw.
class PeriodicThread {
 public:
  using Turn = std::function<std::chrono::milliseconds()>;

  PeriodicThread() = default;
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;
  ~PeriodicThread() { stop(); }

  void start(Turn turn);
  void stop();  // returns when the turn under way has ended, and the thread with it

 private:
  std::mutex mutex_;
  std::condition_variable asked_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace cohort::service
