#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/cluster/address.h"
#include "cohort/cluster/store/store_state.h"

namespace cohort::cluster {

struct StoreServerOptions {
  Address bind{"127.0.0.1", 0};  // port 0: the system chooses; an empty host: every interface
  std::optional<Secret> secret;  // nothing: open to every process that can connect
  bool insecure = false;         // allow no secret on an address that other hosts reach
  std::size_t max_clients = 10000;
  // What a client may leave unread before it is dropped; at least what one request may ask for.
  std::size_t max_queued_bytes = std::size_t{64} << 20;
  StoreLimits limits;
};

// The rendezvous store: a key-value server in memory through which the tasks of a job find each
// other. docs/store.md has operations, wire format and limits.
//
// Threads: one of its own, which serves every client from one event loop; all methods may be called
// from any thread. Waits are held here, nothing polls.
// Failure: the constructor throws InvalidInput (no secret, but other hosts can connect) or
// SystemError (cannot listen). A client that breaks the protocol, does not prove itself within
// kHandshakeTimeout or does not read is dropped, told why, and logged; others do not notice.
class StoreServer {
 public:
  explicit StoreServer(StoreServerOptions options = {});
  ~StoreServer();  // close()
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // The host as it was given, the port that it really is.
  const Address& address() const;

  std::size_t client_count() const;  // those that have proven themselves
  // Waits until at most `count` clients are connected; false when the deadline passed first.
  bool wait_for_clients_at_most(std::size_t count, Deadline deadline);

  // Ends every connection at once and joins the thread. May be called again.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace cohort::cluster
