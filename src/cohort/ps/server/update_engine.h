#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/ps/durable/update_log.h"
#include "cohort/ps/server/aggregation.h"
#include "cohort/ps/server/clocks.h"
#include "cohort/ps/server/combine.h"
#include "cohort/ps/server/server_stats.h"
#include "cohort/ps/state/server_state.h"

namespace cohort::ps {

// Makes updates of what workers push: collects (Aggregation), combines (Combiner), prepares, makes
// durable, publishes (ServerState, UpdateLog), and says what has been decided.
//
// A target is a slice (by local number) or, behind the slices, a table. While one target's update
// waits for its log the others go on.
//
// Threads: confined to the server's loop. `state`, `log` (may be null) and `events` must outlive
// it. Failure: offer() throws ProtocolError; what a gradient does wrong goes to Events::rejected.
class UpdateEngine {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    // A push is in, or never will be. Durable and visible by now.
    virtual void settled(int target, const Settled& push) = 0;
    // A push cannot be used; its worker has to be told, and may push it again.
    virtual void rejected(int worker, const std::string& reason, const std::string& advice) = 0;
    // An update was made: clocks may have moved.
    virtual void updated(int target) = 0;
  };

  UpdateEngine(ServerState& state, UpdateLog* log, ServerStats& stats, Events& events);

  int targets() const { return static_cast<int>(targets_.size()); }
  int target_of_table(int table) const { return slices_ + table; }
  const Aggregation& target(int target) const { return of(target).queue; }
  const Combiner& combiner() const { return combiner_; }

  Clocks& clocks() { return clocks_; }
  const Clocks& clocks() const { return clocks_; }

  // The chief's count.
  void set_learning_rates(int worker, std::vector<double> rates);
  // True when it waits for others now.
  bool offer(int target, Contribution contribution);

  // By worker: pushes with a later sequence wait until this is changed. Empty: none do.
  void set_limits(std::span<const std::uint64_t> limits);
  // By worker: pushes up to this sequence are in, or will be whatever workers do.
  std::vector<std::uint64_t> begun() const;
  // Every push up to the limits is in (of workers that can still be waited for) and no update is
  // being made.
  bool is_level() const;

 private:
  struct Target {
    Aggregation queue;
    std::optional<UpdateRecord> pending;  // prepared, without its payload
    std::vector<int> dropped;             // of the pending update
  };
  const Target& of(int target) const { return targets_[static_cast<std::size_t>(target)]; }
  Target& of(int target) { return targets_[static_cast<std::size_t>(target)]; }
  bool is_table(int target) const { return target >= slices_; }

  void make_updates(int target);
  bool prepare(int target, std::span<const Contribution> used);
  std::span<const std::byte> payload_of(int target, std::span<const Contribution* const> used);
  std::vector<int> not_finite(int target, std::span<const Contribution* const> used,
                              std::string& first) const;
  std::vector<double> learning_rates(std::span<const Contribution> used) const;
  void publish(int target);
  void save_snapshot_if_wanted();

  ServerState& state_;
  UpdateLog* log_;
  ServerStats& stats_;
  Events& events_;
  Policy policy_;
  AggregationRules rules_;
  int slices_;
  std::vector<Target> targets_;
  Combiner combiner_;
  Clocks clocks_;
  std::vector<std::uint64_t> limits_;
  std::vector<std::uint64_t> seen_;  // by worker: the last sequence that came
  std::vector<double> chief_rates_;
  std::string rows_;             // the payload of a table's update
  int in_flight_ = 0;            // updates that wait for the log
  bool wants_snapshot_ = false;  // none is begun until the log has a snapshot
};

}  // namespace cohort::ps
