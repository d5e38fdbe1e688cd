#pragma once

#include <sys/epoll.h>

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/net/socket.h"
#include "cohort/ps/durable/replica_holder.h"
#include "cohort/ps/durable/replica_messages.h"
#include "cohort/ps/durable/replica_options.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

// For tests: the part of a server that holds copies.
class ReplicaServer {
 public:
  // Of server `options.server`, at its port there, or at any where that is 0.
  ReplicaServer(EventLoop& loop, const ReplicaOptions& options)
      : loop_(loop),
        handshake_{.protocol = kProtocol,
                   .secret = options.secret,
                   .identity = fmt::format("ps/{}", options.server)},
        holder_({.server = options.server,
                 .servers = static_cast<int>(options.servers.size()),
                 .job = options.job}),
        tls_(options.tls ? make_tls_context(*options.secret, options.job) : nullptr),
        listener_(listen_on(Endpoint::tcp(
            "127.0.0.1", options.servers[static_cast<std::size_t>(options.server)].port))) {
    loop_.add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
  }
  ~ReplicaServer() {
    cut();
    loop_.remove(listener_.get());
  }

  int port() const { return local_endpoint(listener_.get()).port(); }
  int pieces() const { return pieces_; }  // of snapshots that came in

  // Every connection is lost.
  void cut() {
    for (auto& peer : peers_) loop_.remove(peer->connection->fd());
    peers_.clear();
  }

 private:
  struct Peer final : ConnectionOwner {
    explicit Peer(ReplicaServer& to) : server(to) {}

    void opened(const std::string& who) override { identity = who; }
    std::optional<std::byte*> place(std::string_view control, std::size_t bytes) override {
      return session(control).place(control, bytes);
    }
    void received(std::string_view control, std::byte* bulk, std::size_t bytes,
                  UniqueFd file) override {
      if (std::holds_alternative<ReplicaPiece>(decode_replica_message(control))) ++server.pieces_;
      session(control).received(control, bulk, bytes, std::move(file));
    }
    bool produce(Outgoing& next) override { return replica && replica->produce(next); }

    ConnectionOwner& session(std::string_view control) {
      if (!replica && is_replica_message(control))
        replica = server.holder_.serve(*connection, identity);
      if (!replica) throw ProtocolError("only servers are served here");
      return *replica;
    }

    ReplicaServer& server;
    std::string identity;
    std::unique_ptr<Connection> connection;
    std::unique_ptr<ConnectionOwner> replica;
  };

  void accept() {
    UniqueFd fd = accept_ready(listener_.get());
    if (!fd) return;
    auto peer = std::make_unique<Peer>(*this);
    auto channel =
        tls_ ? tls_->make_channel(std::move(fd), true) : make_plain_channel(std::move(fd));
    peer->connection = std::make_unique<Connection>(std::move(channel), handshake_, true, *peer);
    Peer* at = peer.get();
    peers_.push_back(std::move(peer));
    loop_.add(at->connection->fd(), at->connection->wanted_events(),
              [this, at](std::uint32_t events) { on_events(at, events); });
  }

  void on_events(Peer* peer, std::uint32_t events) {
    int fd = peer->connection->fd();
    try {
      peer->connection->on_events(events);
      loop_.modify(fd, peer->connection->wanted_events());
    } catch (const Error&) {
      loop_.remove(fd);
      peers_.remove_if([&](const auto& one) { return one.get() == peer; });
    }
  }

  EventLoop& loop_;
  const HandshakeOptions handshake_;
  ReplicaHolder holder_;
  const std::unique_ptr<TlsContext> tls_;
  UniqueFd listener_;
  int pieces_ = 0;
  std::list<std::unique_ptr<Peer>> peers_;
};

}  // namespace cohort::ps
