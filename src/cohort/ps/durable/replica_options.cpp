#include "cohort/ps/durable/replica_options.h"

#include "cohort/base/error.h"

namespace cohort::ps {

int replica_holder_of(int server, int servers) {
  if (servers < 2)
    throw InvalidInput(
        "durability 'replica' needs at least 2 parameter servers, got 1: no other "
        "server could hold its copy",
        {.advice = "Start two or more (--ps 2), or choose 'process' or 'disk'."});
  return (server + 1) % servers;
}

std::string replica_holder_name(const ReplicaOptions& options) {
  const int holder = replica_holder_of(options.server, static_cast<int>(options.servers.size()));
  return fmt::format("ps/{} ({})", holder,
                     to_string(options.servers[static_cast<std::size_t>(holder)]));
}

std::unique_ptr<TlsContext> replica_tls(const ReplicaOptions& options) {
  if (!options.tls || !options.secret) return nullptr;
  return make_tls_context(*options.secret, options.job);
}

ConnectorOptions replica_connector_options(const ReplicaOptions& options, TlsContext* tls) {
  const int holder = replica_holder_of(options.server, static_cast<int>(options.servers.size()));
  return {.address = options.servers[static_cast<std::size_t>(holder)],
          .handshake = {.protocol = kProtocol,
                        .secret = options.secret,
                        .identity = fmt::format("ps/{}", options.server)},
          .tls = tls,
          .first_pause = std::chrono::milliseconds(20),
          .longest_pause = std::chrono::milliseconds(1000),
          .attempt_limit = std::chrono::milliseconds(3000),
          .unacknowledged_limit = std::chrono::milliseconds(20000)};
}

}  // namespace cohort::ps
