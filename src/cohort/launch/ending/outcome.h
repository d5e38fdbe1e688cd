#pragma once

#include <map>
#include <set>
#include <vector>

#include "cohort/cluster/task.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {

// Decides what the end of a task means for its job. Knows no processes and no clock: the
// supervisor tells it of each end, in order. Confined to one thread.
//
// - The job succeeds when every task that its policy names has exited with 0.
// - Parameter servers and evaluators never gate that; a parameter server that fails takes the job
//   down, an evaluator that fails does not.
// - Exit code 42 or 143, or death by SIGTERM, that Cohort did not ask for is a preemption: the task
//   was told to go and saved its state. It is to be restarted, not counted as a failure.
class Outcome {
 public:
  enum class Effect { none, success, failure, preemption };

  Outcome(const std::vector<cluster::TaskId>& tasks, SuccessPolicy policy);

  // What this end alone means; `none` when the job just goes on.
  Effect on_exit(const cluster::TaskId& task, const ExitStatus& status);

  // Tasks that must still exit with 0.
  const std::set<cluster::TaskId>& awaited() const { return awaited_; }

 private:
  std::set<cluster::TaskId> awaited_;
};

bool is_preemption(const ExitStatus& status);

}  // namespace cohort::launch
