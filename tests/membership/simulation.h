#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checks.h"
#include "cohort/membership/protocol/coordinator.h"
#include "model_worker.h"
#include "virtual_network.h"

namespace cohort::membership::simulator {

// Mistakes on purpose: what the checks are worth.
enum class Plant {
  none,
  evict_without_waiting,  // a member that is only silent is taken for dead at once
  old_reports_count,      // a report for an old proposal is taken for one for the newest
  commit_without_lease,
  learners_skip_copying,
  no_fill_in,     // a new chief does not write what the old one could not
  learners_wait,  // members that must copy never get the state: no progress
};

struct SimulationOptions {
  std::uint64_t seed = 0;
  Plant plant = Plant::none;
  bool trace = false;  // every event, to stdout
};

struct SimulationResult {
  std::uint64_t events = 0;
  std::uint64_t commits = 0;
  std::uint64_t redone = 0;  // stages that were committed in two views
  std::uint64_t views = 0;
  std::uint64_t evictions = 0;
  Time duration{0};
};

// One training, from a seed: 3 to 8 workers, a network, and disturbances (kills, pauses, hangs,
// cuts with and without loss, broken collectives, resizes, a coordinator that stands still), all
// at random instants. Everything is the same whenever the seed is. The real Coordinator and Member
// decide; ModelWorker trains.
//
// run() throws Violation when an invariant does not hold (checks.h), or when training is not over
// within a bounded time after the last disturbance.
class Simulation {
 public:
  explicit Simulation(SimulationOptions options);
  ~Simulation();

  SimulationResult run();

  // For workers.
  VirtualClock& clock() { return clock_; }
  Random& random() { return random_; }
  Checks& checks() { return checks_; }
  Plant plant() const { return options_.plant; }
  int stages() const { return stages_; }
  int shards() const { return shards_; }
  Time stage_time() const { return stage_time_; }
  bool tracing() const { return options_.trace; }
  void trace(const std::string& line) const;
  void send_to_coordinator(ModelWorker& from, const Message& message);
  // To the process that has this id in its view; to none when it is gone.
  void send_to_worker(ModelWorker& from, const std::string& id,
                      std::function<void(ModelWorker&)> deliver);
  std::uint64_t oldest_active_view() const;

 private:
  struct Task {
    std::unique_ptr<ModelWorker> worker;
    int incarnation = 0;
    std::vector<std::unique_ptr<ModelWorker>> dead;
  };
  static CoordinatorOptions draw_options(Random& random);
  static DelayModel draw_delays(Random& random);

  void start(int task);
  void kill(int task);
  void disturb();
  void cut_some(Time until);
  void end_disturbances();
  void to_coordinator(std::function<void()> what);
  void drain_coordinator();
  void schedule_tick();
  std::vector<int> living() const;

  SimulationOptions options_;
  Random random_;
  VirtualClock clock_;
  CoordinatorOptions coordinator_options_;
  int stages_;
  int shards_;
  Time stage_time_;
  VirtualNetwork network_;
  Checks checks_;
  Coordinator coordinator_;
  Time coordinator_paused_until_{0};
  std::vector<std::function<void()>> for_coordinator_;
  Time tick_at_{0};
  std::vector<Task> tasks_;
  double follow_up_chance_;  // of a disturbance right after a view was installed
  bool over_ = false;
  std::uint64_t proposed_ = 0;
  SimulationResult result_;
};

}  // namespace cohort::membership::simulator
