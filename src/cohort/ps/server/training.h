#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/ps/server/pending_pulls.h"
#include "cohort/ps/server/snapshot_service.h"
#include "cohort/ps/server/step_tally.h"
#include "cohort/ps/server/training_peers.h"
#include "cohort/ps/server/update_engine.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// Bytes with what keeps them.
struct Payload {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> memory;
};

// A server's model in training: what each worker's messages do to it, and when they are answered.
// Knows no sockets; times are given.
//
// Threads: confined to the server's loop. `log` (may be null), `peers` and `stats` must outlive it.
// Failure: ProtocolError and InvalidInput for messages that do not fit: their sender's fault.
class Training : private UpdateEngine::Events {
 public:
  using Time = Clocks::Time;

  Training(std::unique_ptr<ServerState> state, UpdateLog* log, int server,
           std::chrono::milliseconds worker_timeout, TrainingPeers& peers, ServerStats& stats);

  ServerState& state() { return *state_; }
  std::uint64_t finished(int worker) const { return engine_.clocks().finished(worker); }

  void came(int worker);
  void lost(int worker, Time now);

  // Bulk bytes that such a push has; throws for a slice or table that is not this server's.
  std::size_t push_bytes(int worker, int slice, WireType wire) const;
  ElementType slice_type(int slice) const;
  int check_table(int table) const;

  void begin_step(int worker, StepBegin begin);
  void push(int worker, const Push& push, Payload gradient, Time now);
  void push_rows(int worker, const RowsPush& push, Payload rows, Time now);
  void end_step(int worker, StepEnd end);
  void pull(int worker, const Pull& pull);
  void pull_rows(int worker, const RowsPull& pull, std::span<const std::byte> keys);
  SnapshotService& snapshots() { return snapshots_; }
  void leave(int worker, Time now);

  // Gives up workers that have been away for too long, and says what that means; ends a freeze that
  // has lasted as long. Call it at next_patience().
  void run_out_of_patience(Time now);
  Time next_patience() const;

 private:
  struct Worker {
    StepBegin step;
    // What came on its present connection and is not answered: sequences by target, and of the
    // step's end. A push of an earlier connection is answered when it comes again.
    std::vector<std::uint64_t> asked;
    std::uint64_t asked_end = 0;
    std::vector<std::pair<int, Settled>> held;  // answers that bounded staleness keeps back
  };

  void settled(int target, const Settled& push) override;
  void rejected(int worker, const std::string& reason, const std::string& advice) override;
  void updated(int target) override;

  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  int local(int slice) const;
  bool is_table(int target) const;
  Contribution contribution(int worker, std::uint64_t sequence, std::uint64_t base_version,
                            Payload payload);
  void offer(int target, Contribution contribution, Time now);
  void answer(int target, const Settled& push);
  void answer_held();
  void answer_ends(StepTally::Answers answers);
  void forget_connection(int worker);
  void check_enough(Time now);

  std::unique_ptr<ServerState> state_;
  int server_;
  std::chrono::milliseconds worker_timeout_;
  TrainingPeers& peers_;
  AggregationRules rules_;
  std::unordered_map<int, int> locals_;  // slice number -> local number
  UpdateEngine engine_;
  StepTally tally_;
  SnapshotService snapshots_;
  PendingPulls pulls_;
  std::vector<Worker> workers_;
  std::uint64_t slowest_ = 0;  // when held answers were last looked at
};

}  // namespace cohort::ps
