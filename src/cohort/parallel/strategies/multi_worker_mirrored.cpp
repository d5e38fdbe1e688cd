// The strategy multi_worker_mirrored: several processes, on one or many hosts, each with one
// replica or several. Every replica is a rank of one group, threads of one process too, so the
// group's own hierarchy does the rest: shared memory within a host, one exchange between hosts.
#include <exception>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/parallel/strategies/replica_strategy.h"
#include "cohort/transport/store_rendezvous.h"

namespace cohort::parallel {

namespace {

constexpr auto kTimeout = std::chrono::minutes(5);

std::vector<std::unique_ptr<collective::Group>> form_replica_groups(const StrategySetup& setup,
                                                                    int replicas) {
  cluster::Session& session = *setup.world->session;
  if (session.is_alone())
    return collective::make_inproc_groups(replicas, kTimeout, setup.network.tuning);
  const cluster::Role& role = session.role();
  collective::FormOptions options{
      .id = "replicas", .timeout = kTimeout, .authenticate = {}, .connect = {}};
  collective::use_network(options, setup.network);
  const auto rendezvous =
      std::make_shared<transport::StoreRendezvous>(session.store(), session.key("collective"));
  const Deadline deadline = Deadline::after(kTimeout);

  // Forming a group waits for all its ranks, so each local one needs a thread.
  const auto count = static_cast<std::size_t>(replicas);
  std::vector<std::unique_ptr<collective::Group>> groups(count);
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    for (int local = 0; local < replicas; ++local)
      threads.emplace_back([&, local] {
        const auto i = static_cast<std::size_t>(local);
        try {
          groups[i] = collective::form_group(
              {.rank = role.rank * replicas + local,
               .size = role.size * replicas,
               .task = fmt::format("{}, replica {}", to_string(role.task), local),
               .host = role.cluster.empty() ? "" : role.host(),
               .host_identity = {}},
              rendezvous, options, deadline);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return groups;
}

}  // namespace

std::shared_ptr<Strategy> make_multi_worker_mirrored(const StrategySetup& setup) {
  ReplicaStrategy::Parts parts{.name = "multi_worker_mirrored",
                               .world = setup.world,
                               .devices = agree_on_devices("multi_worker_mirrored", setup),
                               .groups = {},
                               .threads = threads_of(setup.flags),
                               .transport = parse_device_transport(setup.flags.transport)};
  if (parts.devices.size() > 1)
    parts.groups = form_replica_groups(setup, static_cast<int>(parts.devices.size()));
  return std::make_shared<ReplicaStrategy>(std::move(parts));
}

}  // namespace cohort::parallel
