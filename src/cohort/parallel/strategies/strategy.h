#pragma once

#include <functional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/parallel/gradients/replica.h"

namespace cohort::parallel {

// How a job's replicas are laid out and reached: `one_device`, `mirrored`, `multi_worker_mirrored`,
// `parameter_server`.
// Context::strategy() makes the one that the flags ask for.
//
// Threads: run() from one thread at a time. Ownership: keeps alive the groups that its replicas use
// until Context::leave().
// Failure: InvalidInput for a layout that cannot be (more GPUs than there are, ...), and from run()
// after leave().
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual std::string name() const = 0;
  virtual int workers() const = 0;         // processes of the job that train
  virtual int worker() const = 0;          // this one's number among them
  virtual int local_replicas() const = 0;  // of this process; the same for all workers
  int replicas() const { return workers() * local_replicas(); }  // of the job
  // Virtual shards of a step where the program does not say how many.
  virtual int shards() const { return replicas(); }
  bool is_chief() const { return worker() == 0; }
  // In an elastic job worker() changes: a number that this process keeps, below slots().
  virtual int slot() const { return worker(); }
  virtual int slots() const { return workers(); }
  // Whether workers come and go while it trains.
  virtual bool is_elastic() const { return false; }
  // The job was begun by an earlier launcher: training goes on from its last checkpoint.
  virtual bool resumes() const { return false; }
  virtual std::string job() const { return {}; }  // its id; empty: none was given

  // Runs `body` once for every local replica, each on a thread of its own (the first on the
  // caller's) with the replica's device current, and returns when all are done. If one throws, the
  // replicas' groups are aborted so that the others stop too, in this and in every other process,
  // and the error that came first is rethrown, one of the program's before one that only reports
  // that a peer stopped. May be called again unless it failed.
  virtual void run(const std::function<void(const Replica&)>& body) = 0;

  // Whether the replicas can call collectives.
  virtual bool has_group() const { return true; }
  // Context::leave() has begun: closes what the strategy has besides groups.
  virtual void leave(Deadline) {}
};

}  // namespace cohort::parallel
