#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/service/jobs/manager_options.h"

namespace cohort::service {

// Carries jobs from `queued` to their end: decides with the queue what starts, hands attempts to
// the engines, observes them, writes what it sees to the run store, stops and scales as asked.
//
// A job starts exactly once. The attempt and the state `starting` are on disk before the engine
// gets the attempt; an attempt that the engine does not know afterwards is submitted again under
// the same id, which engines make harmless. Everything else is decided from what run store and
// engines say: after a crash, and after any error on the way (a disk that is full), the manager
// drops what it has in memory and begins anew with them.
//
// An attempt that was lost (the machine or its launcher died) is followed by another, which goes on
// from the job's checkpoints, while the job has restarts left; otherwise the job fails.
//
// Threads: start() makes one thread, which owns run store and queue and sleeps until it is woken,
// until something changes in the folder of a running attempt (inotify), or until its next timer
// (2 s while attempts run). wake(), free(), line(), engine() and has_unfinished() may be called from any
// thread; pass() only where start() was not called. Engines outlive the thread.
// Failure: start() and the first pass() throw what RunStore's constructor throws. Later errors are
// logged and tried again.
class JobManager {
 public:
  using Engines = service::Engines;
  using Options = ManagerOptions;

  JobManager(Options options, Engines engines);
  ~JobManager();  // stop()

  void start();
  void stop();  // jobs go on; returns when the thread has ended

  void wake(std::string_view job);                            // this job has changed in the store
  const engine::Engine* engine(std::string_view name) const;  // null: none of this name
  jobspec::Size machine() const;
  jobspec::Size free() const;
  std::vector<std::string> line() const;  // the first jobs of the queue, kLine at most
  static constexpr int kLine = 100;
  bool has_unfinished() const;

  // One round of everything that there is to do. Returns when the next one is due at the latest,
  // in milliseconds of the steady clock.
  std::int64_t pass(const Instant& now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::service
