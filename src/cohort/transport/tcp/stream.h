#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/net/authenticated_channel.h"
#include "cohort/base/net/bulk_frames.h"
#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {

// One connection: being made, authenticated, then open. Never blocks. Watched edge-triggered: it
// remembers that it can be read or written until the system says otherwise.
// Confined to one thread at a time. Failure: PeerError (the connection is gone), AuthError,
// ProtocolError; without the peer's name, which the caller adds.
class Stream {
 public:
  // `server`: it was accepted; otherwise its connect() is under way.
  Stream(std::unique_ptr<Channel> channel, const HandshakeOptions& options, bool server)
      : channel_(std::move(channel), options, server) {}

  int fd() const { return channel_.fd(); }
  std::uint64_t watch_id = 0;  // the engine's name for it
  Deadline::Clock::time_point born() const { return channel_.born(); }

  void note_events(std::uint32_t events);  // of epoll
  bool hung_up() const { return hung_up_; }

  // Goes on with connecting and proving. True once the peer is proven.
  bool set_up();
  bool has_news() const { return has_news_; }  // something happened since set_up() was called last
  bool connected() const { return channel_.is_connected(); }
  bool heard_something() const { return channel_.heard_something(); }
  // When bytes came last, once open.
  Deadline::Clock::time_point heard_at() const { return heard_at_; }
  const std::string& peer_identity() const { return channel_.peer_identity(); }

  // From now on chunks travel: control frames, the frame of a chunk followed by its bytes.
  // `handler` must outlive this.
  void open(FrameHandler& handler);
  bool is_open() const { return reader_.has_value(); }

  // Reading is held up by a chunk that the handler does not want yet.
  bool stalled() const { return reader_->stalled(); }

  // One message out at a time: only when idle.
  bool idle() const { return writer_->idle(); }
  void start(ChunkHeader header, const std::byte* payload);  // fills in the checksum
  void start(const Control& control) { writer_->start(encode(control)); }

  // One read or write at most. True when bytes moved.
  bool read_once();
  bool write_once();

  // Reads nothing more, and what is left to write is a copy.
  void detach();
  // Everything was said: the peer reads an end.
  void finish() noexcept { channel_.channel().finish(); }

 private:
  AuthenticatedChannel channel_;
  std::optional<BulkFrameReader> reader_;
  std::optional<BulkFrameWriter> writer_;
  bool has_news_ = true;
  Deadline::Clock::time_point heard_at_;
  bool readable_ = true;
  bool writable_ = true;
  bool hung_up_ = false;       // the peer sends no more
  bool write_failed_ = false;  // what it said before may still be read
  bool detached_ = false;
};

}  // namespace cohort::transport::tcp
