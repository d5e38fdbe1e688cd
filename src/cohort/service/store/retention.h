#pragma once

#include <cstdint>
#include <memory>

#include "cohort/service/store/periodic_thread.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Without limits, jobs and what they left stay until a person deletes them.
struct RetentionPolicy {
  int days = 0;                  // after a job's end; 0: for ever
  std::uint64_t most_bytes = 0;  // of all ended jobs; 0: no limit
  int source_days = 7;           // since a source was last in use; 0: for ever
};

struct Removed {
  int jobs = 0;
  int sources = 0;
  bool clock_in_doubt = false;  // nothing was removed for that reason
};

// Removes jobs that ended long ago, and the oldest of them while they take too much room, with
// their files; events of jobs that are gone; packed sources that no job has. Jobs that are pinned
// or have not ended stay, and do not count; every job stays for a day after its end.
//
// A clock that jumps must not cost results. Nothing at all is removed for a day after the clock was
// seen more than seven days ahead of the last pass (the newest event, before the first pass), or an
// hour behind it: time for a person to set it right. So a wrong clock that is put right within a
// day costs nothing, one that moves by less makes jobs go up to seven days early, and a machine
// that was off for long waits for a day.
//
// Threads: start() makes one (a pass every hour), with a RunStore of its own; pass() is for callers
// without it. Failure: what cannot be removed is logged and tried again in the next pass.
class Retention {
 public:
  Retention(RunFolders folders, RetentionPolicy policy);

  void start();  // throws what RunStore's constructor throws
  void stop();

  Removed pass(Millis now);

 private:
  bool is_clock_in_doubt(Millis now);
  void remove_jobs(Millis now, Removed& removed);
  void remove_sources(Millis now, Removed& removed);
  bool remove(const JobRow& job, Removed& removed);
  std::uint64_t bytes_of(const JobRow& job);
  RunStore& store();

  const RunFolders folders_;
  const RetentionPolicy policy_;
  std::unique_ptr<RunStore> store_;
  PeriodicThread thread_;  // ends first
};

}  // namespace cohort::service
