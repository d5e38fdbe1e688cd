#include "cohort/ps/wire/message_stream.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

// Read behind a bulk: the next frame, but little of the next bulk, which would be copied.
constexpr std::size_t kReadAhead = 512;
constexpr std::size_t kMaxPayload = kMessagePrefix + kMaxControlBytes;

}  // namespace

MessageReader::MessageReader(const Digest& key, ConnectionOwner& owner)
    : decoder_(key, kMaxPayload), owner_(owner) {}

int MessageReader::prepare(std::array<iovec, 2>& places) {
  switch (state_) {
    case State::control:
      places[0] = {inbox_.data() + end_, inbox_.size() - end_};
      return 1;
    case State::bulk:  // the inbox is empty
      places[0] = {memory_ + filled_, std::min(kRunBytes, bulk_bytes_ - filled_)};
      if (bulk_bytes_ - filled_ > kRunBytes) return 1;
      places[1] = {inbox_.data(), kReadAhead};
      return 2;
    case State::placing:
      break;
  }
  return 0;
}

void MessageReader::commit(std::size_t bytes, UniqueFd file) {
  received_ += bytes;
  if (file) {
    // One of the message that is under way, one of the message behind it: a read ends there.
    if (files_.size() == 2) throw ProtocolError("more than one file came with a message");
    files_.push_back({received_, std::move(file)});
  }
  if (state_ == State::bulk) {
    const std::size_t direct = std::min(bytes, bulk_bytes_ - filled_);
    crc_ = crc32c(memory_ + filled_, direct, crc_);
    filled_ += direct;
    begin_ = 0;
    end_ = bytes - direct;
  } else {
    end_ += bytes;
  }
  advance();
}

void MessageReader::advance() {
  for (bool moved = true; moved;) switch (state_) {
      case State::control:
        moved = read_control();
        break;
      case State::placing:
        moved = place();
        break;
      case State::bulk:
        moved = read_bulk();
        break;
    }
  compact();
}

bool MessageReader::read_control() {
  if (frame_left_ == 0) {
    if (end_ - begin_ < 4) return false;
    const std::size_t length = get_integer<std::uint32_t>(inbox_.data() + begin_);
    if (length > kMaxPayload || length < kMessagePrefix)
      throw ProtocolError(fmt::format("a frame announces {} bytes; {} to {} are allowed", length,
                                      kMessagePrefix, kMaxPayload));
    frame_left_ = kFrameHeaderSize + length;
  }
  const std::size_t count = std::min(frame_left_, end_ - begin_);
  if (count == 0) return false;
  decoder_.feed({inbox_.data() + begin_, count});
  begin_ += count;
  frame_left_ -= count;
  if (frame_left_ > 0) return false;
  const auto payload = decoder_.next();
  COHORT_CHECK(payload.has_value(), "a whole frame was fed");
  const auto bulk = get_integer<std::uint64_t>(payload->data());
  if (bulk > kMaxBulkBytes)
    throw ProtocolError(
        fmt::format("a message announces {} bytes; at most {} allowed", bulk, kMaxBulkBytes));
  bulk_bytes_ = bulk;
  crc_sent_ = get_integer<std::uint32_t>(payload->data() + 8);
  control_ = payload->substr(kMessagePrefix);
  memory_ = nullptr;
  filled_ = 0;
  crc_ = 0;
  if (bulk_bytes_ > 0)
    state_ = State::placing;
  else
    deliver();
  return true;
}

bool MessageReader::place() {
  const auto memory = owner_.place(control_, bulk_bytes_);
  if (!memory) return false;
  memory_ = *memory;
  state_ = State::bulk;
  return true;
}

bool MessageReader::read_bulk() {
  const std::size_t count = std::min(bulk_bytes_ - filled_, end_ - begin_);
  if (count > 0) {
    std::memcpy(memory_ + filled_, inbox_.data() + begin_, count);
    crc_ = crc32c(memory_ + filled_, count, crc_);
    begin_ += count;
    filled_ += count;
  }
  if (filled_ < bulk_bytes_) return false;
  if (crc_ != crc_sent_)
    throw ProtocolError(
        fmt::format("{} bytes were damaged on the way (checksum {:08x}, sent with {:08x})",
                    bulk_bytes_, crc_, crc_sent_));
  deliver();
  return true;
}

void MessageReader::deliver() {
  state_ = State::control;
  UniqueFd file;
  const std::uint64_t message_end = received_ - (end_ - begin_);
  if (!files_.empty() && files_.front().position <= message_end) {
    file = std::move(files_.front().file);
    std::erase_if(files_, [&](const File& other) { return other.position <= message_end; });
  }
  owner_.received(control_, memory_, bulk_bytes_, std::move(file));
}

void MessageReader::compact() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && state_ == State::control) {
    std::memmove(inbox_.data(), inbox_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
}

MessageWriter::MessageWriter(const Digest& key) : encoder_(key, kMaxPayload) {}

Outgoing& MessageWriter::blank() {
  message_.control.clear();
  message_.bulk = nullptr;
  message_.bulk_bytes = 0;
  message_.file = -1;
  frame_.clear();
  written_ = 0;
  return message_;
}

void MessageWriter::start() {
  if (message_.bulk_bytes > kMaxBulkBytes)
    throw InvalidInput(fmt::format("a message with {} bytes; at most {} allowed",
                                   message_.bulk_bytes, kMaxBulkBytes));
  payload_.clear();
  ByteWriter(payload_)
      .integer(static_cast<std::uint64_t>(message_.bulk_bytes))
      .integer(crc32c(message_.bulk, message_.bulk_bytes));
  payload_ += message_.control;
  encoder_.encode(payload_, frame_);
}

int MessageWriter::prepare(std::array<iovec, 2>& places) const {
  int count = 0;
  if (written_ < frame_.size())
    places[count++] = {const_cast<char*>(frame_.data()) + written_, frame_.size() - written_};
  const std::size_t sent = written_ > frame_.size() ? written_ - frame_.size() : 0;
  if (sent < message_.bulk_bytes)
    places[count++] = {const_cast<std::byte*>(message_.bulk) + sent, message_.bulk_bytes - sent};
  return count;
}

}  // namespace cohort::ps
