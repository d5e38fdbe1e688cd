#pragma once

#include <optional>

#include "cohort/cluster/role.h"

// What srun tells its processes: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID,
// SLURM_JOB_NODELIST, SLURM_NTASKS_PER_NODE, and the step's own forms of them. Pure functions.
namespace cohort::cluster {

// Nothing when SLURM_PROCID is unset, and in an sbatch script itself (a job without a step), which
// is not one of the tasks: start those with srun or `cohort run`.
// The step's variables win over the job's, as a step may be smaller. Tasks per node are taken from
// SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE or SLURM_NTASKS_PER_NODE; where none is set they
// are spread evenly, as Slurm does. MASTER_ADDR and MASTER_PORT are read too; with MASTER_PORT
// alone the master is the first node of the list. The job is SLURM_JOB_ID. Throws InvalidInput,
// naming variable and value, for what is no number, malformed or contradicts.
std::optional<Role> read_slurm_env(const Environment& environment);

// Removes what names this process's task. The job's own variables stay, for srun and scontrol.
void erase_slurm_task(Environment& environment);

}  // namespace cohort::cluster
