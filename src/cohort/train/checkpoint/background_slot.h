#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "cohort/base/deadline.h"

namespace cohort::train {

// A thread that does one job at a time: while one is under way the next caller waits. What a job
// throws, the next submit(), flush() or close() throws, once.
//
// The member functions belong to one thread. A slot destroyed without close() does as abandon().
class BackgroundSlot {
 public:
  using Job = std::function<void(std::stop_token)>;

  BackgroundSlot();
  BackgroundSlot(const BackgroundSlot&) = delete;
  BackgroundSlot& operator=(const BackgroundSlot&) = delete;
  ~BackgroundSlot() = default;

  // TimeoutError when the job before it is not done by the deadline; `job` is then not taken.
  void submit(Job job, Deadline deadline);
  // Returns when nothing is under way. TimeoutError when that takes too long.
  void flush(Deadline deadline);
  // flush(), then ends the thread; nothing may be submitted after it. May be called again.
  void close(Deadline deadline);
  // Asks the job under way to give up (the stop token), waits for that, and ends the thread.
  // Returns what a job threw that was not told yet; null when nothing. May be called again.
  std::exception_ptr abandon();

 private:
  void run(std::stop_token stop);
  void wait_until_idle(std::unique_lock<std::mutex>& lock, Deadline deadline);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Job job_;  // set while one waits or runs
  std::exception_ptr error_;
  std::jthread thread_;  // last: the others outlive it
};

}  // namespace cohort::train
