#pragma once

#include "cohort/cluster/environment.h"
#include "cohort/cluster/role.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/strategies/flags.h"

// The flag --transport, as far as it concerns the host's memory: which engine the workers' group runs on.
namespace cohort::parallel {

// Throws InvalidInput where --transport mpi cannot work: an elastic job, parameter servers, a task
// that does not train, several replicas a process, a process that neither mpirun nor srun started,
// a program that is not linked with Cohort::collective_mpi. Changes nothing.
void check_transport(const StrategyFlags& flags, const cluster::Role& role,
                     const cluster::Environment& environment);

// Sets world.group, of all workers, and what leave() has to end after it. Collective. Throws as
// collective::form_world; with mpi InvalidInput where the build has no MPI, or where MPI numbers
// the workers otherwise than the job does.
void form_workers_group(collective::World& world, const StrategyFlags& flags,
                        const collective::NetworkOptions& network);

}  // namespace cohort::parallel
