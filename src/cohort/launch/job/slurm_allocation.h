#pragma once

#include "cohort/cluster/environment.h"
#include "cohort/launch/job/job.h"

namespace cohort::launch {

// Starts a step of its own for each task, on the node whose name is appended. Steps share all that
// the job has on the node.
inline constexpr const char* kSrunShell =
    "srun --quiet --overlap --nodes=1 --ntasks=1 --mem=0 --export=ALL --kill-on-bad-exit=0 "
    "--nodelist";

// The nodes that Slurm gave to the job which this process runs in become the hosts of `job`, with
// `workers_per_task` slots for each task that Slurm has room for there, reached by srun where no
// other remote shell was asked for. Throws InvalidInput outside of a Slurm job, and for variables
// that Slurm would not write.
void take_slurm_allocation(JobOptions& job, const cluster::Environment& environment,
                           int workers_per_task = 1);

}  // namespace cohort::launch
