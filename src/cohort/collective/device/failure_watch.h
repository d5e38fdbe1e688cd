#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cohort::collective {

// Looks 20 times a second, on a thread of its own, whether a group on GPUs has to end its calls. The
// thread of the program may not be able to: a stream takes only so many launches ahead of the GPU,
// and the next one returns when the GPU goes on. Where the GPU waits for a rank that is gone, that
// is never.
//
// Threads: made and destroyed by one thread; `ends` is called on the watch's own. The destructor
// joins it, and so waits for one look at most. Whatever `ends` uses outlives this object.
// Failure: where there is no thread to be had, that is logged, and nothing is watched.
class FailureWatch {
 public:
  // `ends` looks and, where it has to, ends the calls: true, and it is asked no more. It neither
  // throws nor waits.
  explicit FailureWatch(std::function<bool()> ends);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  void watch();

  std::function<bool()> ends_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cohort::collective
