#include "cohort/parallel/strategies/transport.h"

#include "cohort/base/error.h"
#include "cohort/cluster/dialects/mpi_env.h"
#include "cohort/collective/mpi/mpi.h"
#include "cohort/parallel/strategies/make_strategy.h"

namespace cohort::parallel {

namespace {

constexpr auto kGroupTimeout = std::chrono::minutes(5);

[[noreturn]] void refuse_mpi(const std::string& why, const std::string& advice) {
  throw InvalidInput("--transport is mpi, but " + why, {.advice = advice});
}

}  // namespace

void check_transport(const StrategyFlags& flags, const cluster::Role& role,
                     const cluster::Environment& environment) {
  if (flags.transport != "mpi") return;
  if (role.elastic)
    refuse_mpi("this job is elastic, and MPI ends all processes when one dies",
               "Leave --transport out, or start the job without --elastic.");
  if (asks_for_parameter_server(flags, role))
    refuse_mpi("the strategy is parameter_server, whose workers form no group",
               "Leave --transport out, or use --distribution_strategy multi_worker_mirrored.");
  if (!role.is_training())
    refuse_mpi(fmt::format("{} does not train, and MPI's group has all its processes",
                           to_string(role.task)),
               "Leave --transport out, or start workers only.");
  if (flags.replicas_per_worker() > 1)
    refuse_mpi(fmt::format("{} is {}, and a process has one rank of MPI",
                           flags.num_gpus > 1 ? "--num_gpus" : "--num_replicas",
                           flags.replicas_per_worker()),
               "Start one process a replica: mpirun -np.");
  if (!cluster::read_mpi_env(environment) && role.dialect != "Slurm")
    refuse_mpi("neither mpirun nor srun started this process",
               "Start it with `mpirun -np N PROGRAM --transport mpi`, or leave --transport out.");
  if (&cohort_collective_mpi_join == nullptr)
    refuse_mpi("this program is not linked with Cohort::collective_mpi",
               "Add it to the program's target_link_libraries, or leave --transport out.");
}

void form_workers_group(collective::World& world, const StrategyFlags& flags,
                        const collective::NetworkOptions& network) {
  if (flags.transport != "mpi") {
    world.group = collective::form_world(*world.session, network);
    return;
  }
  const cluster::Role& role = world.session->role();
  auto joined = cohort_collective_mpi_join(role.rank, role.size, kGroupTimeout);
  world.group = std::move(joined.group);
  world.finalize = std::move(joined.finalize);
}

}  // namespace cohort::parallel
