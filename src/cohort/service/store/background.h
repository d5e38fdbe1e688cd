#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cohort::service {

// Threads for what would hold the HTTP server up: disks that are slow, programs that are asked.
//
// Threads: post() from any. Failure: none; a task must not throw.
class Background {
 public:
  explicit Background(int threads = 4);
  ~Background();  // tasks that have not begun are dropped; waits for the others
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(std::function<void()> task);  // in order, a few at a time

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cohort::service
