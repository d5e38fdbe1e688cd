#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/net/frame_codec.h"
#include "cohort/base/unique_fd.h"

// The two directions of an open connection as state machines over bytes; they know no socket. A
// message is a control frame (frame_codec.h), perhaps followed by bulk bytes as they are, whose
// length and CRC-32C the frame's payload tells in its user's own way.
namespace cohort {

// Bulk is read and written in runs of at most this: checksum and copy meet in cache.
constexpr std::size_t kBulkRunBytes = std::size_t{256} << 10;

// Where the messages of one connection go. Called by BulkFrameReader, on its thread. What it throws
// ends the connection.
class FrameHandler {
 public:
  // What follows a frame.
  struct Bulk {
    std::size_t bytes = 0;
    std::uint32_t crc = 0;  // CRC-32C
  };

  virtual ~FrameHandler() = default;
  // A frame came. Nothing: no bulk follows, the message is complete. `payload` stays until then.
  virtual std::optional<Bulk> frame(std::string_view payload) = 0;
  // Memory for the bulk of that frame, also where it has no bytes; nothing: not wanted yet, and
  // nothing more is read until resume().
  virtual std::optional<std::byte*> place() = 0;
  // The message is whole, its checksum right. `file` came with it, or none.
  virtual void complete(UniqueFd file) = 0;
  // Whether that was the last message: bytes behind it are a ProtocolError.
  virtual bool is_over() const { return false; }
};

// Bytes in: the caller reads into the places that prepare() names, then tells commit() how much
// came. Bulk is read straight to where the handler wants it. Takes any bytes whatever:
// ProtocolError, or fewer calls. Confined to one thread at a time. After an exception it is beyond
// use.
class BulkFrameReader {
 public:
  // `handler` must outlive it.
  BulkFrameReader(FrameDecoder decoder, std::size_t max_payload, FrameHandler& handler);

  // How many places; 0 while stalled or over.
  int prepare(std::array<iovec, 2>& places);
  void commit(std::size_t bytes, UniqueFd file = {});

  // A message came that the handler did not want; resume() asks it again, and is true when it then
  // did.
  bool stalled() const { return state_ == State::placing; }
  bool resume() { return advance(); }

 private:
  enum class State { control, placing, bulk, over };
  bool advance();  // true when a step was made
  bool read_frame();
  bool place();
  bool read_bulk();
  void complete();
  void compact();

  FrameDecoder decoder_;
  std::size_t max_payload_;
  FrameHandler& handler_;
  State state_ = State::control;
  std::array<char, 16 << 10> inbox_;
  std::size_t begin_ = 0, end_ = 0;  // of what came into inbox_ and is not looked at yet
  std::size_t frame_left_ = 0;       // bytes of a frame whose beginning the decoder has

  FrameHandler::Bulk bulk_;
  std::byte* memory_ = nullptr;
  std::size_t filled_ = 0;
  std::uint32_t crc_ = 0;

  // A descriptor belongs to the message that the byte before `position` of the stream is in.
  struct File {
    std::uint64_t position = 0;
    UniqueFd file;
  };
  std::uint64_t received_ = 0;
  std::vector<File> files_;  // of messages that are not whole yet
};

// Bytes out, one message at a time: the caller writes from the places that prepare() names, then
// tells commit(). Confined to one thread at a time.
class BulkFrameWriter {
 public:
  explicit BulkFrameWriter(FrameEncoder encoder) : encoder_(std::move(encoder)) {}

  bool idle() const { return written_ == frame_.size() + bulk_bytes_; }
  // Only when idle. `bulk` must stay until idle again or detach(). `file` goes with the first byte.
  void start(std::string_view payload, const std::byte* bulk = nullptr, std::size_t bulk_bytes = 0,
             int file = -1);

  int prepare(std::array<iovec, 2>& places) const;
  void commit(std::size_t bytes) { written_ += bytes; }
  int file() const { return written_ == 0 ? file_ : -1; }

  // Copies what is left of the bulk, so that its owner may take it back.
  void detach();

 private:
  std::size_t bulk_written() const {
    return written_ > frame_.size() ? written_ - frame_.size() : 0;
  }

  FrameEncoder encoder_;
  std::string frame_;
  const std::byte* bulk_ = nullptr;
  std::size_t bulk_bytes_ = 0;
  int file_ = -1;
  std::size_t written_ = 0;  // of frame and bulk
  std::vector<std::byte> copy_;
};

}  // namespace cohort
