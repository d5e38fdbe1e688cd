#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cohort/base/crypto/secret.h"

namespace cohort::transport::tcp {

constexpr int kRemoteStreams = 2;
constexpr int kMaxStreams = 16;

// What make_messenger() takes. A value.
struct TcpOptions {
  int rank = 0;
  int size = 1;
  std::string id;                // of the group; the same for all its ranks
  std::optional<Secret> secret;  // of the job; nothing: peers prove nothing to each other
  bool insecure = false;         // accept to be reachable from the network without a secret

  std::string bind_host = "127.0.0.1";  // "": every interface
  std::string advertise;  // the host that peers connect to; empty: bind_host, or this host's name

  // Connections a lane to each peer. 0: one where both ends are on loopback, else kRemoteStreams.
  int streams = 0;
  // TLS 1.3 for everything, with a key made from the secret instead of certificates.
  bool tls = false;

  std::string name;  // how peers' errors call this rank; empty: "rank 3"

  // A peer with an open connection that says nothing for this long, while a transfer with it waits,
  // is given up: the network swallows the bytes, or that rank is stopped (the two look the same).
  // Each rank beats eight times as often, on a thread of its own, whatever its other threads
  // compute. Time in which this process itself was stopped does not count. 0: only deadlines count.
  // The same for all ranks.
  std::chrono::milliseconds silence{0};
};

}  // namespace cohort::transport::tcp
