#pragma once

#include "cohort/collective/native/backend.h"

namespace cohort::collective {

// What a call over several hosts runs on: shared memory here, messages between hosts.
struct Hosts {
  Board& board;
  transport::Messenger& remote;
  const Placement& placement;
  int rank;
  const TuningTable& tuning;

  int host() const { return placement.host_of[rank]; }
  bool is_leader() const { return board.index() == 0; }
  int leader_of(int host) const { return placement.ranks_on(host).front(); }
};

// Breaks the group because the ranks' calls differ: a leader tells its host and the others.
[[noreturn]] void raise_mismatch(const Hosts& hosts, const Call& call, const std::string& text);

// Any call whose ranks sit on more than one host. First all ranks compare their calls (here by the
// board, between hosts by one small message from each leader to each other), then data moves: see
// docs/algorithms.md, "Between hosts". A failure anywhere breaks the board, too.
void hierarchical_execute(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
