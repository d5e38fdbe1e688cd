#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cohort::collective {

// A thread, started by its first job, that runs jobs in order. Thread-safe. The destructor lets
// the jobs that are queued run to their ends (each has a deadline) and joins.
class Executor {
 public:
  Executor() = default;
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void add(std::function<void()> job);  // must not throw
  bool idle();                          // nothing queued, nothing running
  bool runs_here();                     // called from one of its jobs
  void join();                          // what the destructor does; nothing may be added after it

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace cohort::collective
