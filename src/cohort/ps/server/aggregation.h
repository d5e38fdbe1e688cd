#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cohort/ps/model/policy.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// One worker's gradient of one target (a slice or a table) for one step.
struct Contribution {
  int worker = 0;
  std::uint64_t sequence = 0;
  std::uint64_t base_version = 0;
  double weight = 1;
  std::vector<double> learning_rates;    // this worker's, for when the chief's are not known
  std::span<const std::byte> bytes;      // lie in `memory`
  std::shared_ptr<const void> memory{};  // whatever must live until they are used
};

// How a policy becomes an update. A value.
struct AggregationRules {
  bool together = false;  // sync: one update a step; otherwise one a contribution
  int workers = 1;
  int required = 1;  // contributions that an update needs

  static AggregationRules of(const Policy& policy, int workers);
};

// A contribution of that worker has been decided upon: it is in, or it never will be.
struct Settled {
  int worker = 0;
  std::uint64_t sequence = 0;
  Values::Reason reason = Values::Reason::applied;

  bool operator==(const Settled&) const = default;
};

// The contributions to one target, from their arrival to the update that has them:
//
//   offer() ... take() -> [the caller makes the update] -> commit() or refuse()
//
// Between take() and its end further contributions queue. Knows no memory of the target, no network
// and no clock. In sync mode version and sequence are the same number; a contribution to a version
// that is there is late. Otherwise a worker's sequences have no gap.
//
// Threads: confined to one. Failure: ProtocolError that names worker and sequence.
class Aggregation {
 public:
  enum class Arrival {
    queued,
    applied,  // it was in already
    waits,    // the same came before and waits
    late,     // sync: the update was made without it
  };

  // `ledger`, by worker: pushes up to this sequence are in version `version`.
  Aggregation(AggregationRules rules, std::uint64_t version, std::vector<std::uint64_t> ledger);

  Arrival offer(Contribution contribution);

  // Those of the next update, in ascending order of their workers; nothing when more are needed,
  // or one is being made. Valid until commit() or refuse(). `limits`, by worker, where not empty: a
  // later sequence has to wait.
  std::span<const Contribution> take(std::span<const std::uint64_t> limits = {});
  bool is_busy() const { return !taken_.empty(); }

  // The update with what take() gave is the version that counts; of `dropped`, workers in it, no
  // values were used. Says who is to be answered: those in it, and those who are late now.
  std::vector<Settled> commit(std::span<const int> dropped = {});
  // No update was made. What was taken of `workers` is gone and may come again; the rest waits on.
  void refuse(std::span<const int> workers);

  std::uint64_t version() const { return version_; }
  // Whatever this worker pushed up to this sequence is decided.
  std::uint64_t settled(int worker) const;
  std::size_t waiting() const { return queue_.size(); }
  bool has_from(int worker) const;  // a contribution of its waits or is being used

 private:
  AggregationRules rules_;
  std::uint64_t version_;
  std::vector<std::uint64_t> ledger_;
  std::deque<Contribution> queue_;   // in order of arrival
  std::vector<Contribution> taken_;  // of the update that is being made
};

}  // namespace cohort::ps
