#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/failure_watch.h"
#include "cohort/collective/nccl/nccl_library.h"

namespace cohort::collective::nccl {

// One NCCL communicator that does not block: NCCL's calls return at once and go on in a thread of
// NCCL's; this class asks until they are done, or the deadline has passed, or abort() was called.
//
// Threads: check() and abort() by any, at any time; the others by one at a time. No lock is held
// while a call is made or under way, nor while NCCL aborts, and nothing uses NCCL's communicator from
// then on but a call that does not return: where NCCL launches on the caller's thread, as older
// versions may, only the end of the communicator lets it.
// Failure: what has failed once is thrown by every later call. A thread watches for it, also while
// the program's is blocked (FailureWatch). The destructor joins the thread that aborts: it waits for
// CUDA graphs that hold calls of the communicator, and for no peer.
class Communicator {
 public:
  // `broken`: why the ranks' group on the host is broken, or nothing; neither throws nor waits, and
  // what it uses outlives this. NCCL itself says nothing of a peer that is gone.
  Communicator(const NcclLibrary& library, std::function<std::optional<std::string>()> broken);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Once, before anything else. Throws as call().
  void connect(int size, const UniqueId& id, int rank, Deadline deadline);

  // `start` makes one of NCCL's calls, or a group of them, and returns its result. Waits until NCCL
  // has put the call on its stream. Throws PeerError, TimeoutError or Error, with `what` as the
  // place; the communicator is then aborted.
  void call(const std::string& what, Deadline deadline, const std::function<Result(Comm)>& start);

  // Throws what has failed since; waits for nothing.
  void check();
  // Later calls throw PeerError(reason), unless something has failed before.
  void abort(const std::string& reason) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void throw_if_ended() const;
  bool find_failure() noexcept;  // ends the communicator where there is one
  // One of NCCL's calls, without the lock.
  Result make(Lock& lock, const std::function<Result()>& call);
  void wait(Lock& lock, Result result, const std::string& what, Deadline deadline);
  Result ask() const;  // how far the call under way is
  std::exception_ptr error_of(Result result, const std::string& what) const;
  void end(std::exception_ptr why) noexcept;  // under the lock; the first one counts
  void give_up_comm() noexcept;               // aborts it

  const NcclLibrary& library_;
  std::mutex mutex_;
  std::condition_variable changed_;  // ended, or a call was made
  Comm comm_ = nullptr;              // nullptr: not connected, or ended
  std::exception_ptr why_;           // set: ended
  bool makes_call_ = false;
  std::thread aborting_;
  std::function<std::optional<std::string>()> broken_;
  std::optional<FailureWatch> watch_;  // last: it uses the others
};

// NCCL's words for a result and, in brackets, for the last error of this process.
std::string words_of(const NcclLibrary& library, Result result, Comm comm);

}  // namespace cohort::collective::nccl
