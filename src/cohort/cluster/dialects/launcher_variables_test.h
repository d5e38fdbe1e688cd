#pragma once

#include "cohort/cluster/dialects/mpi_env.h"
#include "cohort/cluster/dialects/rank_variables.h"
#include "cohort/cluster/dialects/slurm_env.h"
#include "cohort/cluster/role.h"

// What mpirun and srun set for a task: Cohort itself only reads them.
namespace cohort::cluster {

inline void write_openmpi_env(const Role& role, Environment& environment) {
  erase_mpi_env(environment);
  if (!role.is_training()) return;
  write_ranks(role,
              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE"},
              environment);
}

inline void write_slurm_env(const Role& role, Environment& environment) {
  erase_slurm_task(environment);
  if (!role.is_training()) return;
  write_ranks(role,
              {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
               "SLURM_NODEID", "SLURM_NNODES"},
              environment);
}

}  // namespace cohort::cluster
