#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

struct ConnectorOptions {
  cluster::Address address;
  HandshakeOptions handshake;
  TlsContext* tls = nullptr;  // null: none; must outlive the connector
  // Between attempts: doubles from the first to the longest, each cut by up to a half at random.
  std::chrono::milliseconds first_pause{2};
  std::chrono::milliseconds longest_pause{200};
  std::chrono::milliseconds attempt_limit{5000};      // until settled()
  std::chrono::milliseconds unacknowledged_limit{0};  // of bytes sent (TCP_USER_TIMEOUT); 0: none
};

// A connection to one server, made again, with growing pauses, whenever it is lost: of a worker to
// a server, and of a server to the one that holds its copy. Never blocks: names are looked up on
// another thread.
//
// Threads: confined to the loop's. Ownership: `loop` and `owner` must outlive it.
// Failure: what ends a connection, or an attempt to make one, goes to `lost`; the connection is
// gone by then.
class ServerConnector {
 public:
  // Says whether to try again. What it throws leaves the loop's run().
  using Lost = std::function<bool(std::exception_ptr error)>;
  ServerConnector(EventLoop& loop, ConnectorOptions options, ConnectionOwner& owner, Lost lost);
  ~ServerConnector();
  ServerConnector(const ServerConnector&) = delete;
  ServerConnector& operator=(const ServerConnector&) = delete;

  void connect();  // from the loop's next round on, unless it is under way already
  void close();    // ends the connection and further attempts; not in a callback of the connection

  // ---- in callbacks of the connection too
  // This socket takes the connection's place when the callback is over.
  void replace_by(UniqueFd unix_socket);
  void settled();      // the peer answers as it should: the attempt's limit is lifted
  void reset_pause();  // the next attempt comes soon again
  void wake();         // produce() has something
  // ----

  void kick();  // produce() has something, or place() would now say where: tries both at once

  Connection* connection() const { return connection_.get(); }  // null: none now

 private:
  void attempt();
  void connect_to_address();  // once lookup_ is done
  void end_lookup();
  void watch(std::unique_ptr<Connection> connection);
  void drive(std::uint32_t events);
  void fail(std::exception_ptr error);

  EventLoop& loop_;
  const ConnectorOptions options_;
  ConnectionOwner& owner_;
  const Lost lost_;
  std::optional<NameLookup> lookup_;  // of the server's name, while it is asked for
  std::unique_ptr<Connection> connection_;
  std::uint32_t watched_events_ = 0;
  UniqueFd replacement_;
  EventLoop::TimerId timer_ = 0;  // the next attempt, or the limit of this one
  std::chrono::milliseconds pause_;
  std::minstd_rand random_;
  std::size_t attempts_ = 0;
};

}  // namespace cohort::ps
