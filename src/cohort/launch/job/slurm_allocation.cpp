#include "cohort/launch/job/slurm_allocation.h"

#include "cohort/base/error.h"
#include "cohort/cluster/dialects/slurm_nodes.h"

namespace cohort::launch {

void take_slurm_allocation(JobOptions& job, const cluster::Environment& environment,
                           int workers_per_task) {
  const auto list = environment.find_value("SLURM_JOB_NODELIST");
  if (!list || list->empty())
    throw InvalidInput("--slurm: this is no Slurm job (SLURM_JOB_NODELIST is not set)",
                       {.advice = "Use it in a script of sbatch, or below salloc."});
  const auto nodes = cluster::expand_slurm_nodelist(*list);
  std::vector<int> tasks =
      cluster::expand_slurm_counts(environment.find_value("SLURM_TASKS_PER_NODE").value_or("1"));
  if (tasks.size() == 1) tasks.resize(nodes.size(), tasks.front());
  if (tasks.size() != nodes.size())
    throw InvalidInput(fmt::format("SLURM_TASKS_PER_NODE has {} numbers for the {} nodes of '{}'",
                                   tasks.size(), nodes.size(), *list),
                       {.advice = "Leave these variables as Slurm sets them."});
  job.hosts.clear();
  for (std::size_t i = 0; i < nodes.size(); ++i)
    job.hosts.push_back({.name = nodes[i], .slots = tasks[i] * workers_per_task});
  if (job.remote.shell == kDefaultRemoteShell) job.remote.shell = kSrunShell;
}

}  // namespace cohort::launch
