#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// One consistent copy at a time, across servers: which pushes are in it, and what has to wait for
// it (messages.h: Hold, Cut).
//
//   hold() -> [begins()] -> Held -> cut() -> [is_complete()] -> copied() -> sent()
//
// From the Held on no push is begun that it does not name; from the Cut on, none that the cut does
// not; after the copy everything goes on. The next holder begins when the copy has been sent: it
// takes memory until then.
//
// Pure; confined to one thread.
class SnapshotCut {
 public:
  // `together`: sync, where a step's update has pushes of several workers: the cut is one step.
  SnapshotCut(bool together, int workers) : together_(together), workers_(workers) {}

  // Asks for a copy; a second request of the same worker replaces its first.
  void hold(int worker, std::uint64_t request);
  bool can_begin() const { return stage_ == Stage::idle && !waiting_.empty(); }
  // Whose turn begins, and what to answer. `begun`, by worker: pushes up to this sequence are in or
  // will be, whoever else does what.
  std::pair<int, Held> begin_next(std::vector<std::uint64_t> begun);
  // False when there is no such hold (any more).
  bool cut(int worker, const Cut& cut);
  // The worker is gone or has what it wanted: whatever was held for it goes on.
  void release(int worker);

  // By worker: pushes up to this sequence may become updates. Empty: all.
  std::span<const std::uint64_t> limits() const { return limits_; }
  // A cut is due: every worker's pushes up to limits() have to be in, and can be copied then.
  bool is_cutting() const { return stage_ == Stage::cutting; }
  int holder() const { return current_.worker; }
  std::uint64_t request() const { return current_.request; }
  void copied();                     // limits are lifted
  void sent(std::uint64_t request);  // the next one may begin

  bool is_idle() const { return stage_ == Stage::idle; }

 private:
  enum class Stage { idle, held, cutting, sending };
  struct Request {
    int worker = -1;
    std::uint64_t request = 0;
  };

  bool together_;
  int workers_;
  std::deque<Request> waiting_;
  Stage stage_ = Stage::idle;
  Request current_;
  std::vector<std::uint64_t> limits_;
};

}  // namespace cohort::ps
