#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/net/frame_codec.h"
#include "cohort/ps/wire/connection.h"

// The two directions of an open Connection as state machines over bytes; they know no socket. A
// message is a control frame (base/frame_codec.h), whose payload begins with the length and the
// checksum of what follows the frame, and then those bytes as they are:
//
//   frame{ bulk length u64 | CRC-32C of the bulk u32 | control } | bulk
namespace cohort::ps {

constexpr std::size_t kMessagePrefix = 8 + 4;
// Bulk is read and written in runs of at most this: checksum and copy meet in cache.
constexpr std::size_t kRunBytes = std::size_t{256} << 10;

// Bytes in. Bulk is read straight to where the owner wants it.
class MessageReader {
 public:
  MessageReader(const Digest& key, ConnectionOwner& owner);

  // Places for the next read; 0: the owner has no memory yet.
  int prepare(std::array<iovec, 2>& places);
  // `bytes` of those came, and perhaps a descriptor. Throws ProtocolError, and what the owner
  // throws.
  void commit(std::size_t bytes, UniqueFd file);
  void resume() { advance(); }
  bool stalled() const { return state_ == State::placing; }

 private:
  enum class State { control, placing, bulk };
  void advance();
  bool read_control();
  bool place();
  bool read_bulk();
  void deliver();
  void compact();

  FrameDecoder decoder_;
  ConnectionOwner& owner_;
  State state_ = State::control;
  std::array<char, 16 << 10> inbox_;
  std::size_t begin_ = 0, end_ = 0;  // of what lies unread in inbox_
  std::size_t frame_left_ = 0;       // bytes of a frame whose beginning the decoder has

  std::string_view control_;  // in the decoder
  std::byte* memory_ = nullptr;
  std::size_t bulk_bytes_ = 0;
  std::size_t filled_ = 0;
  std::uint32_t crc_ = 0;
  std::uint32_t crc_sent_ = 0;

  // A descriptor belongs to the message that the byte before `position` of the stream is in.
  struct File {
    std::uint64_t position = 0;
    UniqueFd file;
  };
  std::uint64_t received_ = 0;
  std::vector<File> files_;  // of messages that are not whole yet
};

// Bytes out. One message at a time.
class MessageWriter {
 public:
  explicit MessageWriter(const Digest& key);

  bool idle() const { return written_ == frame_.size() + message_.bulk_bytes; }
  // The owner fills this; then start().
  Outgoing& blank();
  void start();
  int prepare(std::array<iovec, 2>& places) const;
  void commit(std::size_t bytes) { written_ += bytes; }
  int file() const { return written_ == 0 ? message_.file : -1; }

 private:
  FrameEncoder encoder_;
  Outgoing message_;
  std::string payload_;
  std::string frame_;
  std::size_t written_ = 0;
};

}  // namespace cohort::ps
