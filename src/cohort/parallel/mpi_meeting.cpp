#include "cohort/parallel/mpi_meeting.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/mpi/mpi.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/transport/host.h"

namespace cohort::parallel {

bool needs_mpi_meeting(const cluster::Role& role) {
  const auto& dialect = role.dialect;
  return (dialect == "OpenMPI" || dialect == "PMI" || dialect == "PMIx" || dialect == "Slurm") &&
         role.size > 1 && !role.store && role.cluster.empty();
}

MpiMeeting meet_over_mpi(const cluster::Role& role) {
  if (!collective::mpi::available())
    throw InvalidInput(
        fmt::format("{} started {} processes, and this Cohort was built without MPI, over which "
                    "they would meet",
                    role.dialect, role.size),
        {.advice = "Install OpenMPI (apt-get install libopenmpi-dev openmpi-bin) and build again, "
                   "or start the job with `cohort run`."});
  const collective::mpi::Runtime runtime;
  if (runtime.size() != role.size || runtime.rank() != role.rank)
    throw InvalidInput(
        fmt::format("{} says that this is rank {} of {}, but MPI rank {} of {}", role.dialect,
                    role.rank, role.size, runtime.rank(), runtime.size()),
        {.advice = "Start the program with the mpirun of the MPI that Cohort was built with (with "
                   "Slurm: srun --mpi=pmix), or with `cohort run`."});
  const auto group = collective::mpi::make_group(runtime);

  const auto hosts = gather_texts(*group, transport::host_identity());
  const bool one_host =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host == hosts[0]; });
  std::unique_ptr<cluster::StoreServer> server;
  std::string note;  // the secret's bytes, then the address
  if (role.rank == 0) {
    const Secret secret = Secret::generate();
    server = std::make_unique<cluster::StoreServer>(
        cluster::StoreServerOptions{.bind = {one_host ? "127.0.0.1" : "", 0}, .secret = secret});
    cluster::Address address = server->address();
    if (!one_host) address.host = transport::host_name();
    note = std::string(secret.bytes()) + to_string(address);
  }
  note = broadcast_text(*group, note, 0);
  return {cluster::parse_address(note.substr(Secret::kSize)),
          Secret::from_bytes(note.substr(0, Secret::kSize)), std::move(server)};
}

}  // namespace cohort::parallel
