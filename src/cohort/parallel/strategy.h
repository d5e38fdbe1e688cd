#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/cluster/session.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/replica.h"

namespace cohort::parallel {

// How a job's replicas are laid out and reached: `one_device`, `mirrored`, `multi_worker_mirrored`.
//
// Threads: run() from the main thread. Ownership: owns the groups that its replicas use.
// Failure: InvalidInput for a layout that cannot be (more GPUs than there are, ...).
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual std::string name() const = 0;
  virtual int workers() const = 0;                               // processes of the job that train
  virtual int worker() const = 0;                                // this one's number among them
  virtual int local_replicas() const = 0;                        // of this process
  int replicas() const { return workers() * local_replicas(); }  // of the job
  bool is_chief() const { return worker() == 0; }

  // Runs `body` once for every local replica, each on a thread of its own (the first on the
  // caller's), and returns when all are done. If one throws, the replicas' group is aborted so that
  // the others stop too, and the first replica's own error (not one that only reports the abort) is
  // rethrown. May be called again unless it failed.
  virtual void run(const std::function<void(const Replica&)>& body) = 0;
};

}  // namespace cohort::parallel
