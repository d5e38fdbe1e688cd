#include "cohort/base/net/bulk_frames.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort {
namespace {

// Read behind a bulk: the next frame, but little of the next bulk, which would be copied.
constexpr std::size_t kReadAhead = 512;

}  // namespace

BulkFrameReader::BulkFrameReader(FrameDecoder decoder, std::size_t max_payload,
                                 FrameHandler& handler)
    : decoder_(std::move(decoder)), max_payload_(max_payload), handler_(handler) {}

int BulkFrameReader::prepare(std::array<iovec, 2>& places) {
  switch (state_) {
    case State::control:
      places[0] = {inbox_.data() + end_, inbox_.size() - end_};
      return 1;
    case State::bulk:  // the inbox is empty
      places[0] = {memory_ + filled_, std::min(kBulkRunBytes, bulk_.bytes - filled_)};
      if (bulk_.bytes - filled_ > kBulkRunBytes) return 1;
      places[1] = {inbox_.data(), kReadAhead};
      return 2;
    case State::placing:
    case State::over:
      break;
  }
  return 0;
}

void BulkFrameReader::commit(std::size_t bytes, UniqueFd file) {
  received_ += bytes;
  if (file) {
    // One of the message that is under way, one of the message behind it: a read ends there.
    if (files_.size() == 2) throw ProtocolError("more than one file came with a message");
    files_.push_back({received_, std::move(file)});
  }
  if (state_ == State::bulk) {
    const std::size_t direct = std::min(bytes, bulk_.bytes - filled_);
    crc_ = crc32c(memory_ + filled_, direct, crc_);
    filled_ += direct;
    begin_ = 0;
    end_ = bytes - direct;
  } else {
    end_ += bytes;
  }
  advance();
}

bool BulkFrameReader::advance() {
  int steps = -1;
  for (bool moved = true; moved; ++steps) switch (state_) {
      case State::control:
        moved = read_frame();
        break;
      case State::placing:
        moved = place();
        break;
      case State::bulk:
        moved = read_bulk();
        break;
      case State::over:
        if (begin_ != end_) throw ProtocolError("bytes came after the last message");
        moved = false;
        break;
    }
  compact();
  return steps > 0;
}

bool BulkFrameReader::read_frame() {
  if (frame_left_ == 0) {
    if (end_ - begin_ < 4) return false;
    const std::size_t length = get_integer<std::uint32_t>(inbox_.data() + begin_);
    if (length > max_payload_)
      throw ProtocolError(
          fmt::format("a frame announces {} bytes; at most {} allowed", length, max_payload_));
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
  const auto bulk = handler_.frame(*payload);
  if (bulk) {
    bulk_ = *bulk;
    state_ = State::placing;
  } else {
    complete();
  }
  return true;
}

bool BulkFrameReader::place() {
  const auto memory = handler_.place();
  if (!memory) return false;
  memory_ = *memory;
  filled_ = 0;
  crc_ = 0;
  state_ = State::bulk;
  return true;
}

bool BulkFrameReader::read_bulk() {
  const std::size_t count = std::min(bulk_.bytes - filled_, end_ - begin_);
  if (count > 0) {
    std::memcpy(memory_ + filled_, inbox_.data() + begin_, count);
    crc_ = crc32c(memory_ + filled_, count, crc_);
    begin_ += count;
    filled_ += count;
  }
  if (filled_ < bulk_.bytes) return false;
  if (crc_ != bulk_.crc)
    throw ProtocolError(
        fmt::format("{} bytes were damaged on the way (checksum {:08x}, sent with {:08x})",
                    bulk_.bytes, crc_, bulk_.crc));
  complete();
  return true;
}

void BulkFrameReader::complete() {
  state_ = State::control;
  UniqueFd file;
  const std::uint64_t message_end = received_ - (end_ - begin_);
  if (!files_.empty() && files_.front().position <= message_end) {
    file = std::move(files_.front().file);
    std::erase_if(files_, [&](const File& other) { return other.position <= message_end; });
  }
  handler_.complete(std::move(file));
  if (handler_.is_over()) state_ = State::over;
}

void BulkFrameReader::compact() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && state_ == State::control) {
    std::memmove(inbox_.data(), inbox_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
}

void BulkFrameWriter::start(std::string_view payload, const std::byte* bulk, std::size_t bulk_bytes,
                            int file) {
  frame_.clear();
  encoder_.encode(payload, frame_);
  bulk_ = bulk;
  bulk_bytes_ = bulk_bytes;
  file_ = file;
  written_ = 0;
}

int BulkFrameWriter::prepare(std::array<iovec, 2>& places) const {
  int count = 0;
  if (written_ < frame_.size())
    places[count++] = {const_cast<char*>(frame_.data()) + written_, frame_.size() - written_};
  const std::size_t sent = bulk_written();
  if (sent < bulk_bytes_)
    places[count++] = {const_cast<std::byte*>(bulk_) + sent, bulk_bytes_ - sent};
  return count;
}

void BulkFrameWriter::detach() {
  const std::size_t sent = bulk_written();
  if (sent >= bulk_bytes_ || bulk_ == copy_.data()) return;
  copy_.assign(bulk_ + sent, bulk_ + bulk_bytes_);
  // What was sent already no longer counts as bulk.
  bulk_ = copy_.data();
  bulk_bytes_ -= sent;
  written_ -= sent;
}

}  // namespace cohort
