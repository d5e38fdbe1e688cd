#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "cohort/base/deadline.h"
#include "cohort/base/net/channel.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/base/net/handshake.h"

namespace cohort {

// A connection from connect() or accept() to the moment when both sides are proven: waits for the
// socket, greets (TLS), runs the handshake; then gives the keys of the frames that follow. The
// store, the TCP transport and the parameter servers have one under each of their connections.
//
// Never blocks. Confined to one thread at a time. Owns the channel.
// Failure: set_up() throws PeerError (the connection is gone), AuthError or ProtocolError (the
// peer does not belong to this job); without the peer's name, which the caller adds. A client that
// is refused is told why first (best effort). Good to destroy only then.
class AuthenticatedChannel {
 public:
  // `server`: it was accepted. A client's connect() may still be under way.
  AuthenticatedChannel(std::unique_ptr<Channel> channel, const HandshakeOptions& options,
                       bool server);

  // Goes on as far as it can. True once the peer is proven.
  bool set_up();
  bool is_connected() const { return phase_ != Phase::connecting; }
  bool is_open() const { return phase_ == Phase::open; }
  bool heard_something() const { return heard_something_; }  // of the handshake
  std::uint32_t wanted_events() const;  // of epoll, level-triggered, until it is open

  int fd() const { return channel_->fd(); }
  Channel& channel() { return *channel_; }
  const Channel& channel() const { return *channel_; }
  Deadline::Clock::time_point born() const { return born_; }

  // Once open.
  const std::string& peer_identity() const { return result_.peer_identity; }
  FrameDecoder make_decoder(std::size_t max_payload) const;
  FrameEncoder make_encoder(std::size_t max_payload) const;

 private:
  enum class Phase { connecting, greeting, proving, open };
  bool connect();
  bool greet();
  bool prove();
  bool flush();

  std::unique_ptr<Channel> channel_;
  std::variant<ClientHandshake, ServerHandshake> handshake_;
  bool server_;
  Phase phase_;
  Deadline::Clock::time_point born_ = Deadline::Clock::now();
  std::string unsent_;  // of the handshake
  bool heard_something_ = false;
  HandshakeResult result_;
};

}  // namespace cohort
