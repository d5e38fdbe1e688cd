#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <optional>

#include "cohort/base/net/frame_codec.h"
#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {

// Where the chunks of one connection go. Called by Inbound, on its thread.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  // Memory for header.length bytes; nothing: nobody wants them yet. Throws ProtocolError when the
  // chunk is not the one that is due.
  virtual std::optional<std::byte*> place(const ChunkHeader& header) = 0;
  virtual void arrived(const ChunkHeader& header) = 0;  // whole, its checksum is right
  virtual void goodbye(const Goodbye& goodbye) = 0;
};

// One direction of one connection, after the handshake: the parser. It owns no socket: the caller
// reads into the places that prepare() names, then tells commit() how much came. Chunks are read
// straight into the sink's memory. Takes any bytes whatever: ProtocolError, or fewer calls.
// Confined to one thread at a time. After an exception it is beyond use.
class Inbound {
 public:
  Inbound(const Digest& key, ChunkSink& sink);

  // How many places; 0 while stalled or ended.
  int prepare(std::array<iovec, 2>& places);
  void commit(std::size_t bytes);

  // A chunk came that the sink did not want; resume() asks it again, and is true when it
  // then did.
  bool stalled() const { return state_ == State::placing; }
  bool resume();

  bool ended() const { return state_ == State::ended; }  // the goodbye came
  bool between_frames() const { return state_ == State::control && begin_ == end_; }

 private:
  enum class State { control, placing, chunk, ended };
  bool read_control();
  bool place();
  bool finish_chunk();
  bool advance();  // true when a step was made
  std::size_t take(std::byte* to, std::size_t most);

  FrameDecoder decoder_;
  ChunkSink& sink_;
  State state_ = State::control;
  ChunkHeader header_;
  std::byte* memory_ = nullptr;  // of the chunk
  std::size_t filled_ = 0;
  std::array<char, 4096> inbox_;  // [begin_, end_) came, and is not looked at yet
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace cohort::transport::tcp
