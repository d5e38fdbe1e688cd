#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "cohort/engine/engine.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Follows every job that runs, and reads what it left once more after its end (job_metrics.h): each
// second while there is something new, less often (5 s) where there is not.
//
// Threads: start() makes one, which opens a RunStore of its own; pass() is for callers without it.
// Engines outlive the thread. Failure: what goes wrong with one job is logged and tried again at
// its next turn; after the job's end five times. start() throws what RunStore's constructor throws.
class MetricsCollector {
 public:
  struct Options {
    RunFolders folders;
    std::function<const engine::Engine*(std::string_view name)> engine;  // null: not known
  };

  explicit MetricsCollector(Options options);
  ~MetricsCollector();  // stop()

  void start();
  void stop();  // returns when the thread has ended

  // One look at each job whose turn it is. True: there is more to read at once.
  bool pass(Millis now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::service
