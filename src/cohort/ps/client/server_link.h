#pragma once

#include <memory>
#include <string>

#include "cohort/base/net/event_loop.h"
#include "cohort/ps/client/link_inbound.h"
#include "cohort/ps/client/link_outbound.h"
#include "cohort/ps/client/link_state.h"
#include "cohort/ps/connect/server_connector.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

// A worker's way to one server: connects by TCP, goes over to the server's Unix socket where both
// are on one host, says hello, and carries the step under way and open requests. When the
// connection is lost it connects again with growing pauses and sends again what was not answered,
// all of it made from ClientState.
//
// Threads: the client's, but for state() and enqueue_locked(), which are for holders of
// ClientState::mutex. Ownership: `client`, `loop` and `tls` (null: none) must outlive it.
// Failure: goes to ClientState::fail() where trying again is no use.
class ServerLink : private ConnectionOwner {
 public:
  ServerLink(ClientState& client, int server, EventLoop& loop, TlsContext* tls);

  void connect() { connector_.connect(); }
  void reconnect();                   // drops the connection and makes another, at once
  void kick() { connector_.kick(); }  // there may be something to send, or memory to receive it
  void close();                       // for good

  LinkState& state() { return state_; }
  void enqueue_locked(LinkOutbound::Item item) { outbound_.enqueue_locked(std::move(item)); }

 private:
  enum class LocalNameState { known, wanted, asked };  // of the server's Unix socket

  void opened(const std::string& identity) override;
  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override;
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override;
  bool produce(Outgoing& next) override;

  void enter();  // the connection stays: say hello
  bool produce_hello(Outgoing& next);
  void on(const Welcome& message, UniqueFd file);
  void on(const LocalName& message);
  void on(const Refused& message);
  void forget_connection();
  bool on_lost(std::exception_ptr error);

  ClientState& client_;
  LinkState state_;
  LinkOutbound outbound_;
  LinkInbound inbound_;
  bool said_hello_ = false;
  LocalNameState local_name_ = LocalNameState::known;
  bool has_been_proven_ = false;  // on any connection
  ServerConnector connector_;
};

}  // namespace cohort::ps
