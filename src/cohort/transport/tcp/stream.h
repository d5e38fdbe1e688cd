#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "cohort/base/deadline.h"
#include "cohort/base/net/handshake.h"
#include "cohort/transport/tcp/channel.h"
#include "cohort/transport/tcp/inbound.h"
#include "cohort/transport/tcp/outbound.h"

namespace cohort::transport::tcp {

// One connection: being made, authenticated, then open. Never blocks. Watched edge-triggered: it
// remembers that it can be read or written until the system says otherwise.
// Confined to one thread at a time. Failure: PeerError (the connection is gone), AuthError,
// ProtocolError; without the peer's name, which the caller adds.
class Stream {
 public:
  // `server`: it was accepted; otherwise its connect() is under way.
  Stream(std::unique_ptr<Channel> channel, const HandshakeOptions& options, bool server);

  int fd() const { return channel_->fd(); }
  std::uint64_t watch_id = 0;  // the engine's name for it
  Deadline::Clock::time_point born() const { return born_; }

  void note_events(std::uint32_t events);  // of epoll
  bool hung_up() const { return hung_up_; }

  // Goes on with connecting and proving. True once the peer is proven.
  bool set_up();
  bool has_news() const { return has_news_; }  // something happened since set_up() was called last
  bool connected() const { return phase_ > Phase::connecting; }
  bool heard_something() const { return heard_something_; }
  // When bytes came last, once open.
  Deadline::Clock::time_point heard_at() const { return heard_at_; }
  bool proven() const { return phase_ == Phase::proven; }
  const std::string& peer_identity() const { return result_.peer_identity; }

  // From now on chunks travel. `sink` must outlive this.
  void open(ChunkSink& sink);
  bool is_open() const { return inbound_.has_value(); }
  Outbound& outbound() { return *outbound_; }
  const Inbound& inbound() const { return *inbound_; }

  // One read or write at most. True when bytes moved.
  bool read_once();
  bool write_once();

  // Reads nothing more, and what is left to write is a copy.
  void detach();
  // Everything was said: the peer reads an end.
  void finish() noexcept { channel_->finish(); }

 private:
  enum class Phase { connecting, greeting, proving, proven };
  bool flush();
  bool prove();

  std::unique_ptr<Channel> channel_;
  std::variant<ClientHandshake, ServerHandshake> handshake_;
  bool server_;
  Phase phase_;
  Deadline::Clock::time_point born_ = Deadline::Clock::now();
  std::string unsent_;  // of the handshake
  bool has_news_ = true;
  bool heard_something_ = false;
  Deadline::Clock::time_point heard_at_;
  HandshakeResult result_;
  std::optional<Inbound> inbound_;
  std::optional<Outbound> outbound_;
  bool readable_ = true;
  bool writable_ = true;
  bool hung_up_ = false;       // the peer sends no more
  bool write_failed_ = false;  // what it said before may still be read
  bool detached_ = false;
};

}  // namespace cohort::transport::tcp
