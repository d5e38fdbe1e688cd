#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/ps/server/clocks.h"
#include "cohort/ps/server/training_peers.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// Pulls of values and rows, from their arrival until the policy allows their answer.
//
// Threads: confined to the server's loop. What it is given must outlive it.
// Failure: ProtocolError for a worker that has too many under way.
class PendingPulls {
 public:
  // `together`: sync, where versions decide and not clocks.
  PendingPulls(ServerState& state, const Clocks& clocks, bool together, TrainingPeers& peers)
      : state_(state), clocks_(clocks), together_(together), peers_(peers) {}

  // Answer at once where they may.
  void pull(int worker, const Pull& pull);
  void pull_rows(int worker, const RowsPull& pull, std::span<const std::byte> keys);

  void answer();            // what may be answered by now
  void forget(int worker);  // its connection is gone

 private:
  struct Waiting {
    int worker = 0;
    Message request;  // Pull or RowsPull
    std::vector<std::uint64_t> keys;
  };
  void wait_or_answer(Waiting waiting);
  bool try_answer(const Waiting& waiting);

  ServerState& state_;
  const Clocks& clocks_;
  const bool together_;
  TrainingPeers& peers_;
  std::vector<Waiting> waiting_;
};

}  // namespace cohort::ps
