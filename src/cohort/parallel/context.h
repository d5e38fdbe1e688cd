#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/strategy.h"

namespace cohort {

// Flags that every Cohort program understands. init() takes them from the command line; what it
// does not know it leaves to the program (Context::arguments()).
struct StrategyFlags {
  std::string distribution_strategy;  // off|one_device|mirrored|multi_worker_mirrored|parameter_server;
                                      // empty: what the launcher says, else by the number of tasks
  int num_gpus = 0;                   // GPUs a worker: one replica each
  int num_replicas = 0;               // replicas a worker on the CPU; 0: one
  std::string device;                 // cpu|cuda; empty: cuda when num_gpus > 0, else cpu
  int threads = 0;                    // intra-op threads a replica; 0: 1 in deterministic mode's sense
};

// A program's place in its job. Movable. Destroying it without leave() tells the others that this
// task was lost.
class Context {
 public:
  int rank() const;        // among the worker processes
  int size() const;
  int local_rank() const;  // among those on this host
  int local_size() const;
  bool is_chief() const;
  const cluster::Role& role() const;
  collective::Group& group();  // of the worker processes
  const std::vector<std::string>& arguments() const;  // what init() did not take, without argv[0]
  const StrategyFlags& flags() const;
  std::string output() const;  // the job's output folder, or empty

  bool is_service() const;  // a ps or evaluator: the program should `return context.serve();`
  int serve();

  std::shared_ptr<parallel::Strategy> strategy();  // made once, from flags() and the role
  void leave(Deadline deadline = Deadline::after(std::chrono::minutes(5)));

 private:
  friend Context init(int argc, const char* const* argv);
  struct State;
  std::shared_ptr<State> state_;
};

// Finds this process's role, joins the job, sets LibTorch's threads. With no launcher and no
// environment the job has one worker. Throws InvalidInput (a bad flag by name and value), AuthError,
// TimeoutError, PeerError.
Context init(int argc, const char* const* argv);

}  // namespace cohort
