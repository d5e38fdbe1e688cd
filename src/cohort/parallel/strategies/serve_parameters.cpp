#include "cohort/parallel/strategies/serve_parameters.h"

#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/ps/server/serve.h"

namespace cohort::parallel {

namespace {

std::filesystem::path folder_of(const ServerFlags& flags, const cluster::Role& role) {
  if (flags.durability != ps::Durability::disk) return {};
  if (role.output.empty())
    throw InvalidInput("--ps_durability is disk, but the job has no output folder",
                       {.advice = "Start it with `cohort run --output FOLDER`, or set "
                                  "COHORT_OUTPUT for every task."});
  return std::filesystem::path(role.output) / fmt::format("ps-{}", role.task.index);
}

ps::ServerOptions options_of(const StrategySetup& setup) {
  const cluster::Session& session = *setup.world->session;
  const cluster::Role& role = session.role();
  const ServerFlags& flags = setup.flags.servers;
  return {.server = role.task.index,
          .servers = role.cluster.addresses(cluster::TaskType::ps),
          .bind_host = setup.network.bind_host,
          .job = session.key("ps"),
          .secret = setup.network.secret,
          .insecure = setup.network.insecure,
          .tls = setup.network.tls,
          .durability = flags.durability,
          .memory = {},
          .folder = folder_of(flags, role),
          .memory_limit = flags.memory_limit,
          .worker_timeout = flags.worker_timeout};
}

}  // namespace

void serve_parameters(const StrategySetup& setup, RestartState* keep, Deadline deadline) {
  ps::serve(*setup.world->session, options_of(setup), keep, deadline);
}

}  // namespace cohort::parallel
