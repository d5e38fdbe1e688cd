#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// One consistent copy at a time, across servers: which pushes are in it, and what has to wait for
// it (messages.h: FreezeRequest, SnapshotRequest).
//
//   freeze() -> [can_begin()] -> Frozen -> request() -> [is_copy_due()] -> copied() -> sent()
//
// From the Frozen on no push is begun that it does not name; from the SnapshotRequest on, none that
// it does not; after the copy everything goes on. The next worker's turn begins when the copy
// has been sent: it takes memory until then.
//
// Pure; confined to one thread.
class SnapshotCoordinator {
 public:
  // `together`: sync, where a step's update has pushes of several workers: the copy is of one step.
  SnapshotCoordinator(bool together, int workers) : together_(together), workers_(workers) {}

  // Asks for a copy; a second request of the same worker replaces its first.
  void freeze(int worker, std::uint64_t request);
  bool can_begin() const { return phase_ == SnapshotPhase::idle && !waiting_.empty(); }
  // Whose turn begins, and what to answer. `begun`, by worker: pushes up to this sequence are in or
  // will be, whatever other workers do.
  std::pair<int, Frozen> begin_next(std::vector<std::uint64_t> begun);
  // False when the training is not frozen for it (any more).
  bool request(int worker, const SnapshotRequest& wanted);
  // The worker is gone or has what it wanted: what waited for it goes on.
  void release(int worker);

  // By worker: pushes up to this sequence may become updates. Empty: all.
  std::span<const std::uint64_t> limits() const { return limits_; }
  // A copy is due: every worker's pushes up to limits() have to be in, and can be copied then.
  bool is_copy_due() const { return phase_ == SnapshotPhase::copying; }
  int requester() const { return current_.worker; }
  std::uint64_t number() const { return current_.request; }
  void copied();                     // limits are lifted
  void sent(std::uint64_t request);  // the next one may begin

  bool is_idle() const { return phase_ == SnapshotPhase::idle; }

 private:
  enum class SnapshotPhase { idle, frozen, copying, sending };
  struct Request {
    int worker = -1;
    std::uint64_t request = 0;
  };

  bool together_;
  int workers_;
  std::deque<Request> waiting_;
  SnapshotPhase phase_ = SnapshotPhase::idle;
  Request current_;
  std::vector<std::uint64_t> limits_;
};

}  // namespace cohort::ps
