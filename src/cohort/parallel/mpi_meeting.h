#pragma once

#include <memory>
#include <optional>

#include "cohort/base/secret.h"
#include "cohort/cluster/role.h"
#include "cohort/cluster/store_server.h"

namespace cohort::parallel {

// How processes that mpirun or srun started find each other: MPI tells them ranks, but no meeting
// place. Rank 0 opens a store, and MPI hands its address and a fresh secret to the others. MPI's
// work is then done: Cohort's own transports carry the rest, and MPI is ended again unless the
// program had started it.
struct MpiMeeting {
  cluster::Address store;
  Secret secret;
  std::unique_ptr<cluster::StoreServer> server;  // on rank 0: must outlive every rank's session
};

// Whether `role` comes from MPI or Slurm and names several tasks but no meeting place.
bool needs_mpi_meeting(const cluster::Role& role);

// Collective over MPI_COMM_WORLD. Throws InvalidInput when this Cohort was built without MPI, or
// when MPI started other processes than `role` says; Error when MPI itself fails.
MpiMeeting meet_over_mpi(const cluster::Role& role);

}  // namespace cohort::parallel
