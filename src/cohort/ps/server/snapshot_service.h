#pragma once

#include <chrono>

#include "cohort/ps/server/snapshot_coordinator.h"
#include "cohort/ps/server/training_peers.h"
#include "cohort/ps/server/update_engine.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// Gives workers consistent copies of a server's state: freezes the engine at the pushes that
// SnapshotCoordinator names, copies when exactly those are in, and lets everything go on.
//
// Threads: confined to the server's loop. What it is given must outlive it.
// Failure: ProtocolError for requests out of turn.
class SnapshotService {
 public:
  using Time = std::chrono::steady_clock::time_point;

  SnapshotService(ServerState& state, UpdateEngine& engine, bool together, int workers,
                  TrainingPeers& peers)
      : state_(state), engine_(engine), coordinator_(together, workers), peers_(peers) {}

  void freeze(int worker, const FreezeRequest& request);
  void copy(int worker, const SnapshotRequest& request);
  void release(int worker);  // its connection is gone
  void advance();            // updates were made, or workers came or went

  bool is_frozen() const { return !coordinator_.limits().empty(); }
  int requester() const { return coordinator_.requester(); }  // where it is frozen: for whom
  Time frozen_since() const { return frozen_since_; }

 private:
  void send_state();

  ServerState& state_;
  UpdateEngine& engine_;
  SnapshotCoordinator coordinator_;
  TrainingPeers& peers_;
  Time frozen_since_;
};

}  // namespace cohort::ps
