#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/strategies/flags.h"
#include "cohort/parallel/strategies/strategy.h"

namespace cohort {

namespace membership {
class ElasticMembership;
}

// A program's part in its job. Copies are handles of the same one. Destroying the last one leaves
// the job as leave() does (after 5 minutes at the latest; an error is logged), unless an exception is
// on its way out of the program, or the task is a service: the others then read that it was lost. So
// make it first in main(), and let exceptions pass through (run_main() prints them).
// Threads: strategy(), serve() and leave() from one thread; the rest from any.
class Context {
 public:
  // Among the worker processes; -1 for a task that does not train. In an elastic job they follow
  // its views, once this worker is in one; before, they are its slot's and the most that there can
  // be.
  int rank() const;
  int size() const;
  int local_rank() const;  // among those on this host
  int local_size() const;
  bool is_chief() const;
  const cluster::Role& role() const;
  const std::vector<std::string>& arguments() const;  // what init() did not take, without argv[0]
  const StrategyFlags& flags() const;
  std::string output() const;  // the job's output folder, or empty

  // Of the worker processes: what the functions of ops.h work on, which therefore take a Context
  // too. Throws InvalidInput for a task that does not train, with the strategy parameter_server
  // (whose workers form no group), and after leave(). In an elastic job there is one only inside
  // fit() or elastic::run(): that of the view, which ends with it. Also InvalidInput where the
  // flags ask for several replicas a process and strategy() was not called: a loop on this group
  // has one.
  collective::Group& group() const;
  operator collective::Group&() const { return group(); }
  // This worker's membership of an elastic job, for elastic::run(); null in any other job. Lives as
  // long as this context.
  membership::ElasticMembership* elastic() const;

  // A ps or evaluator: the program should `return context.serve();`, which returns 0 when all
  // workers are done and throws PeerError, with its name, when one left without. With the strategy
  // parameter_server a ps holds its share of the parameters meanwhile, and a worker that is lost
  // may come back.
  bool is_service() const;
  int serve(Deadline deadline = Deadline::never());

  // Made at the first call, from flags() and the role; collective over the workers then.
  // Throws InvalidInput for a layout that cannot be.
  std::shared_ptr<parallel::Strategy> strategy();

  // This task is done; returns when the others no longer need what it hosts, at the latest at the
  // deadline. The group and the strategy are not for use any more. For programs that go on after
  // their job, or want to hear of an error; otherwise the destructor does it. May be called again.
  void leave(Deadline deadline = Deadline::after(std::chrono::minutes(5)));

 private:
  friend Context init(const cluster::Environment&, const std::vector<std::string>&);
  void expect_member() const;  // of the workers, and not left
  struct State;
  std::shared_ptr<State> state_;
};

// Finds this process's role and joins the job. LibTorch's threads stay as they are in a program
// that is alone; a worker of several gets its share of the host's cores, unless --threads,
// OMP_NUM_THREADS or MKL_NUM_THREADS say otherwise. With
// no launcher and no environment the job has one worker; under mpirun, srun and torchrun the
// processes meet by themselves (cluster::Session). Takes the flags of flags.h and a scheduler's
// (--job_name ...) from the arguments. Throws InvalidInput (a bad flag by name and value; a
// strategy that does not fit the role), AuthError, TimeoutError, PeerError.
Context init(int argc, const char* const* argv);

// The same for an environment other than the process's own. `arguments` are without argv[0].
Context init(const cluster::Environment& environment, const std::vector<std::string>& arguments);

}  // namespace cohort
