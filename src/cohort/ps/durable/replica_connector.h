#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/wire/connection.h"

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

// A connection to the server that holds our copy, made again, with growing pauses, whenever it is
// lost. Never blocks, but for the name server where the address is a name.
// Threads: confined to the loop's. Ownership: `owner` and `loop` must outlive it.
class ReplicaConnector {
 public:
  // `lost` is told why after each connection that failed or broke; it may throw to end the loop.
  // The next attempt follows by itself.
  ReplicaConnector(EventLoop& loop, const ReplicaOptions& options, ConnectionOwner& owner,
                   std::function<void(const Error&)> lost);
  ~ReplicaConnector();
  ReplicaConnector(const ReplicaConnector&) = delete;
  ReplicaConnector& operator=(const ReplicaConnector&) = delete;

  void proven();  // it answers as it should: the next pause is short again
  void wake();    // produce() has something
  // Between on_events() of the connection, as the owner is called: wakes without sending.
  void wake_later();

 private:
  void attempt();
  void on_events(std::uint32_t events);
  void fail(const Error& error);
  void close();

  EventLoop& loop_;
  const ReplicaOptions& options_;
  ConnectionOwner& owner_;
  const std::function<void(const Error&)> lost_;
  const HandshakeOptions handshake_;
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<Connection> connection_;
  std::uint32_t watched_ = 0;
  std::chrono::milliseconds pause_;
  unsigned attempts_ = 0;
  std::optional<EventLoop::TimerId> timer_;  // the next attempt, or the end of this one
};

}  // namespace cohort::ps
