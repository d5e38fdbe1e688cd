#include "cohort/transport/tcp/inbound.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::transport::tcp {

namespace {

// Read behind a chunk: the next frame, but little of the next chunk, which would be copied.
constexpr std::size_t kReadAhead = 512;

}  // namespace

Inbound::Inbound(const Digest& key, ChunkSink& sink) : decoder_(key, kMaxControl), sink_(sink) {
  static_assert(kFrameHeaderSize + kMaxControl <= sizeof inbox_);
}

int Inbound::prepare(std::array<iovec, 2>& places) {
  switch (state_) {
    case State::control:
      places[0] = {inbox_.data() + end_, inbox_.size() - end_};
      return 1;
    case State::chunk:  // the inbox is empty
      places[0] = {memory_ + filled_, header_.length - filled_};
      places[1] = {inbox_.data(), kReadAhead};
      return 2;
    case State::placing:
    case State::ended:
      break;
  }
  return 0;
}

void Inbound::commit(std::size_t bytes) {
  if (state_ == State::chunk) {
    const std::size_t direct = std::min<std::size_t>(bytes, header_.length - filled_);
    filled_ += direct;
    begin_ = 0;
    end_ = bytes - direct;
  } else {
    end_ += bytes;
  }
  advance();
}

bool Inbound::resume() { return advance(); }

bool Inbound::advance() {
  int steps = -1;
  for (bool moved = true; moved; ++steps) switch (state_) {
      case State::control:
        moved = read_control();
        break;
      case State::placing:
        moved = place();
        break;
      case State::chunk:
        moved = finish_chunk();
        break;
      case State::ended:
        if (begin_ != end_) throw ProtocolError("bytes came after the goodbye");
        moved = false;
        break;
    }
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && state_ == State::control) {
    std::memmove(inbox_.data(), inbox_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return steps > 0;
}

bool Inbound::read_control() {
  const std::size_t there = end_ - begin_;
  if (there < 4) return false;
  const std::size_t length = get_integer<std::uint32_t>(inbox_.data() + begin_);
  const std::size_t whole = kFrameHeaderSize + length;
  if (length <= kMaxControl && there < whole) return false;
  decoder_.feed({inbox_.data() + begin_, std::min(whole, there)});
  const auto payload = decoder_.next();  // throws when the length is over the bound
  COHORT_CHECK(payload.has_value(), "a whole frame was fed");
  begin_ += whole;
  const Control control = decode_control(*payload);
  if (const auto* goodbye = std::get_if<Goodbye>(&control)) {
    state_ = State::ended;
    sink_.goodbye(*goodbye);
  } else if (const auto* header = std::get_if<ChunkHeader>(&control)) {
    header_ = *header;
    state_ = State::placing;
  }
  return true;
}

bool Inbound::place() {
  const auto memory = sink_.place(header_);
  if (!memory) return false;
  memory_ = *memory;
  filled_ = take(memory_, header_.length);
  state_ = State::chunk;
  return true;
}

bool Inbound::finish_chunk() {
  if (filled_ < header_.length) return false;
  const std::uint32_t crc = crc32c(memory_, header_.length);
  if (crc != header_.crc)
    throw ProtocolError(
        fmt::format("{} bytes at {} of message {} were damaged on the way (checksum {:08x}, sent "
                    "with {:08x})",
                    header_.length, header_.offset, header_.number, crc, header_.crc));
  state_ = State::control;
  sink_.arrived(header_);
  return true;
}

std::size_t Inbound::take(std::byte* to, std::size_t most) {
  const std::size_t count = std::min(most, end_ - begin_);
  if (count > 0) std::memcpy(to, inbox_.data() + begin_, count);
  begin_ += count;
  return count;
}

}  // namespace cohort::transport::tcp
