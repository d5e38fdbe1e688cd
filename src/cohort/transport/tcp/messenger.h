#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cohort/base/crypto/secret.h"
#include "cohort/transport/messenger.h"
#include "cohort/transport/rendezvous.h"

namespace cohort::transport::tcp {

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
  // is given up: somebody swallows the bytes. Each rank beats eight times as often, on a thread of
  // its own; a rank that is stopped does not. 0: only deadlines count. The same for all ranks.
  std::chrono::milliseconds silence{0};
};

constexpr int kRemoteStreams = 2;
constexpr int kMaxStreams = 16;

// A Messenger over TCP; docs/wire.md has its bytes. Listens from the start, publishes its address
// as "<id>/tcp/<rank>", connects when a transfer first needs it: the higher rank to the lower. No
// thread of its own but for beats: whoever waits on a transfer moves all of them.
// Throws InvalidInput (reachable from the network without a secret; TLS without one), SystemError,
// TimeoutError (the rendezvous).
std::unique_ptr<Messenger> make_messenger(TcpOptions options,
                                          std::shared_ptr<Rendezvous> rendezvous,
                                          Deadline deadline);

}  // namespace cohort::transport::tcp
