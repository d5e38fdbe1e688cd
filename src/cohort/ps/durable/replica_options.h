#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/connect/server_connector.h"

namespace cohort::ps {

struct ReplicaOptions {
  int server = 0;  // whose state it is
  std::vector<cluster::Address> servers;
  std::string job;
  std::optional<Secret> secret;
  bool tls = false;
  // Of this process as a primary; recover_from_replica() fills it in.
  std::uint64_t incarnation = 0;
};

// The server that holds the copy of `server`. Throws InvalidInput when there is only one.
int replica_holder_of(int server, int servers);
// "ps/1 (10.0.0.7:4000)", for messages.
std::string replica_holder_name(const ReplicaOptions& options);

// Null without TLS.
std::unique_ptr<TlsContext> replica_tls(const ReplicaOptions& options);
// How to reach the holder.
ConnectorOptions replica_connector_options(const ReplicaOptions& options, TlsContext* tls);

}  // namespace cohort::ps
