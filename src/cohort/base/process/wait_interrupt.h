#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"

namespace cohort {

// A wait was broken off because this thread's WaitInterrupt said so. A collective that was under
// way is over for the whole group: peers get a PeerError that names this rank.
class Interrupted : public Error {
  using Error::Error;
};

// While it lives, waits of this thread inside Cohort ask `check` about every 50 ms, and throw
// Interrupted when it returns true: in collectives, messages, the store, and membership. It is
// asked no more after that, so that what cleans up may wait. Without one a wait costs one look at a
// thread-local pointer each time that it goes to sleep.
//
//   const WaitInterrupt interrupt([] { return signal_came(); });
//   group.barrier();
//
// Threads: confined to the thread that made it. An inner one stands in for the outer one. `check`
// must not throw and must not wait for anything of Cohort's.
// Not asked: calls of the MPI backend.
class WaitInterrupt {
 public:
  explicit WaitInterrupt(std::function<bool()> check);
  ~WaitInterrupt();
  WaitInterrupt(const WaitInterrupt&) = delete;
  WaitInterrupt& operator=(const WaitInterrupt&) = delete;

  // For code that waits; of this thread's innermost one, if there is any.
  static bool is_due() noexcept;             // ask() would ask
  static void ask();                         // where it is due; throws Interrupted
  static Deadline limit(Deadline) noexcept;  // how long to sleep before it is due again

 private:
  using TimePoint = Deadline::Clock::time_point;
  bool told_ = false;
  TimePoint next_ = {};  // not set before the first sleep
  WaitInterrupt* outer_;
  std::function<bool()> check_;
};

// changed.wait_until(lock, deadline, ready), interruptibly. False: the deadline passed. The lock is
// not held while the thread asks, nor when this throws.
template <typename Ready>
bool wait_interruptibly(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        Ready&& ready, Deadline deadline) {
  while (!ready()) {
    if (WaitInterrupt::is_due()) {
      lock.unlock();
      WaitInterrupt::ask();
      lock.lock();
      continue;
    }
    if (deadline.expired()) return false;
    const Deadline until = WaitInterrupt::limit(deadline);
    if (until.is_never())
      changed.wait(lock);
    else
      changed.wait_until(lock, until.when());
  }
  return true;
}

}  // namespace cohort
