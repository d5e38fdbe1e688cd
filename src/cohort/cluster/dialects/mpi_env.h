#pragma once

#include <optional>

#include "cohort/cluster/role.h"

// What MPI launchers tell their processes: OpenMPI's OMPI_COMM_WORLD_*, and PMI_RANK, PMI_SIZE,
// PMIX_RANK, MPI_LOCALRANKID, MPI_LOCALNRANKS of the others. Pure functions.
namespace cohort::cluster {

// OpenMPI's variables, else PMI's. Nothing when none is set, and when Slurm's variables say more:
// a PMI without local ranks under srun. PMIX_RANK alone has no size, which is an InvalidInput; the
// other errors are those of read_ranks. MASTER_ADDR and MASTER_PORT are read too.
std::optional<Role> read_mpi_env(const Environment& environment);

// Removes every variable that read_mpi_env would take for this process's rank.
void erase_mpi_env(Environment& environment);

}  // namespace cohort::cluster
