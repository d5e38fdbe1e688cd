#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/ps/model/policy.h"

namespace cohort::ps {

// How many steps each worker has finished on this server, which workers are still expected, and
// what that allows the others. Told of every target (slice or table) whose push is settled; has no
// clock of its own: times are given.
//
// A worker is expected from the start. It is not when it said that it leaves, or has been away for
// longer than the worker timeout; a worker that comes back after that is expected again once it
// has caught up with the slowest, so that its return delays no other.
//
// Threads: confined to one.
class Clocks {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint64_t kForever = UINT64_MAX;

  // `settled[target][worker]`: as of Aggregation::settled(). Without targets every worker has
  // finished for ever. `now`: since when workers that have not come are awaited.
  Clocks(const Policy& policy, int workers, const std::vector<std::vector<std::uint64_t>>& settled,
         Time now);

  // One more target has that worker's push of this sequence, for good. True when that finished the
  // step for the worker.
  bool settle(int worker, std::uint64_t sequence);

  std::uint64_t finished(int worker) const { return of(worker).finished; }
  // Of the expected workers; kForever where there are none.
  std::uint64_t slowest() const;
  // Whether the policy allows a worker the values for its step of this sequence. In sync mode the
  // version of each target decides, not this.
  bool allows(std::uint64_t sequence) const;

  void came(int worker);
  void lost(int worker, Time now);
  void left(int worker);
  // Gives up workers that have been away for `patience` at `now`; says which.
  std::vector<int> give_up(Time now, std::chrono::milliseconds patience);
  // When the next one would have to be given up; Time::max() when no worker is away.
  Time next_give_up(std::chrono::milliseconds patience) const;

  bool is_expected(int worker) const { return of(worker).expected; }
  bool has_left(int worker) const { return of(worker).left; }
  bool can_come(int worker) const { return !of(worker).left && !of(worker).given_up; }
  // Workers that can still contribute: all but those that left or were given up.
  int available() const;
  // "worker/1 (lost 61 s ago) and worker/3 (left)": those that cannot.
  std::string describe_missing(Time now) const;

 private:
  struct Worker {
    std::uint64_t finished = 0;
    int ahead = 0;  // targets that have settled the step after
    bool here = false;
    bool expected = true;
    bool left = false;
    bool given_up = false;
    Time away_since;
  };
  const Worker& of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  void expect_if_level(Worker& worker);

  Policy policy_;
  int targets_;
  std::vector<Worker> workers_;
};

}  // namespace cohort::ps
