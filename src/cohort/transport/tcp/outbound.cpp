#include "cohort/transport/tcp/outbound.h"

#include "cohort/base/data/crc32c.h"

namespace cohort::transport::tcp {

Outbound::Outbound(const Digest& key) : encoder_(key, kMaxControl) {}

void Outbound::start_frame(const std::string& control) {
  frame_.clear();
  encoder_.encode(control, frame_);
  payload_ = nullptr;
  payload_bytes_ = 0;
  written_ = 0;
}

void Outbound::start(ChunkHeader header, const std::byte* payload) {
  header.crc = crc32c(payload, header.length);
  start_frame(encode(header));
  payload_ = payload;
  payload_bytes_ = header.length;
}

void Outbound::start(const Goodbye& goodbye) { start_frame(encode(goodbye)); }
void Outbound::start(const Beat& beat) { start_frame(encode(beat)); }

int Outbound::prepare(std::array<iovec, 2>& places) const {
  int count = 0;
  if (written_ < frame_.size())
    places[count++] = {const_cast<char*>(frame_.data()) + written_, frame_.size() - written_};
  const std::size_t sent = written_ > frame_.size() ? written_ - frame_.size() : 0;
  if (sent < payload_bytes_)
    places[count++] = {const_cast<std::byte*>(payload_) + sent, payload_bytes_ - sent};
  return count;
}

void Outbound::detach() {
  const std::size_t sent = written_ > frame_.size() ? written_ - frame_.size() : 0;
  if (sent >= payload_bytes_ || payload_ == copy_.data()) return;
  copy_.assign(payload_ + sent, payload_ + payload_bytes_);
  // What was sent already no longer counts as payload.
  payload_ = copy_.data();
  payload_bytes_ -= sent;
  written_ -= sent;
}

}  // namespace cohort::transport::tcp
