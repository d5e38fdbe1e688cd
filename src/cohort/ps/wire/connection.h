#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/net/channel.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/net/tls_channel.h"
#include "cohort/base/unique_fd.h"

namespace cohort::ps {

// One message on its way out: a control part, and bytes that follow it as they are.
struct Outgoing {
  std::string control;
  const std::byte* bulk = nullptr;  // stays until the next produce() or the connection's end
  std::size_t bulk_bytes = 0;
  int file = -1;  // Unix sockets only: a descriptor that goes with it; the caller's
};

// The owner of a connection. Called by Connection on its thread.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;

  // The handshake is done: `identity` is the peer's, proven where the job has a secret.
  virtual void opened(const std::string& identity) = 0;
  // A control part came with `bulk_bytes` behind it, one or more: where should those go? Nothing:
  // not yet; the connection reads no more until resume(). Throws to end the connection.
  virtual std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) = 0;
  // A message is whole, its checksum right.
  virtual void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                        UniqueFd file) = 0;
  // The next message to send, when all before it is written. False: nothing now; say so with
  // wake().
  virtual bool produce(Outgoing& next) = 0;
};

// A peer on a stream socket: the authenticated handshake (base/net/authenticated_channel.h), then
// messages both ways (base/net/bulk_frames.h). The payload of each message's frame begins with the
// length and the checksum of what follows the frame (docs/formats.md):
//
//   frame{ bulk length u64 | CRC-32C of the bulk u32 | control } | bulk
//
// Used by server and client alike, each from its event loop.
//
// Never blocks; a bounded amount of work a call, so that no peer starves another. Takes any bytes
// whatever.
// After each call on it, watch its descriptor for wanted_events(). The owner must not destroy it in
// a callback.
// Threads: confined to one. Ownership: owns the socket; `owner` must outlive it.
// Failure: PeerError (the peer is gone), AuthError, ProtocolError, from on_events() and what the
// owner throws; the connection is then good to destroy only.
class Connection {
 public:
  // `server`: it was accepted. A client's connect() may still be under way.
  Connection(std::unique_ptr<Channel> channel, const HandshakeOptions& handshake, bool server,
             ConnectionOwner& owner);
  // A Unix socket, over which descriptors may travel too.
  Connection(UniqueFd unix_socket, const HandshakeOptions& handshake, bool server,
             ConnectionOwner& owner);
  ~Connection();

  int fd() const;
  // Of epoll, level-triggered. With 0 it tries what there is to do, so that an answer needs no
  // round through epoll.
  void on_events(std::uint32_t events);
  std::uint32_t wanted_events() const;
  bool is_open() const;  // the peer is proven
  bool is_unix() const;  // descriptors may travel

  void wake();    // produce() has something again
  void resume();  // place() would now say where

 private:
  class Messages;
  struct State;
  std::unique_ptr<State> state_;
};

// The TLS of a job's parameter servers: client and server make equal ones from equal arguments.
std::unique_ptr<TlsContext> make_tls_context(const Secret& secret, const std::string& job);

constexpr std::size_t kMaxControlBytes = 4 << 20;  // a ModelSpec's text travels as control
constexpr std::size_t kMaxBulkBytes = std::size_t{256} << 20;
constexpr std::uint32_t kProtocol = protocol_id("PSRV");

}  // namespace cohort::ps
