#include "cohort/base/net/frame_codec.h"

#include <algorithm>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"

namespace cohort {
namespace {

constexpr std::size_t kMacAt = 12;
constexpr std::size_t kMacSize = kFrameHeaderSize - kMacAt;
constexpr std::size_t kKeptCapacity = 64 * 1024;

}  // namespace

FrameEncoder::FrameEncoder(const Digest& key, std::size_t max_payload)
    : hmac_(as_bytes(key)), max_payload_(max_payload) {}

std::array<char, kFrameHeaderSize> FrameEncoder::header(std::string_view payload) {
  if (payload.size() > max_payload_)
    throw InvalidInput(
        fmt::format("a message of {} bytes; at most {} allowed", payload.size(), max_payload_));
  std::array<char, kFrameHeaderSize> bytes;
  put_integer(static_cast<std::uint32_t>(payload.size()), bytes.data());
  put_integer(sequence_++, bytes.data() + 4);
  Digest mac = hmac_({std::string_view(bytes.data(), kMacAt), payload});
  std::copy_n(as_bytes(mac).begin(), kMacSize, bytes.begin() + kMacAt);
  return bytes;
}

void FrameEncoder::encode(std::string_view payload, std::string& out) {
  auto bytes = header(payload);
  out.append(bytes.data(), bytes.size());
  out.append(payload);
}

FrameDecoder::FrameDecoder(const Digest& key, std::size_t max_payload)
    : hmac_(as_bytes(key)), max_payload_(max_payload) {}

void FrameDecoder::feed(std::string_view bytes) {
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    begin_ = 0;
    if (buffer_.capacity() > kKeptCapacity) buffer_.shrink_to_fit();
  } else if (begin_ > buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_.append(bytes);
}

std::optional<std::string_view> FrameDecoder::next() {
  std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < 4) return std::nullopt;
  auto length = get_integer<std::uint32_t>(rest.data());
  if (length > max_payload_)
    throw ProtocolError(
        fmt::format("a frame announces {} bytes; at most {} allowed", length, max_payload_));
  if (rest.size() < kFrameHeaderSize + length) return std::nullopt;
  std::string_view payload = rest.substr(kFrameHeaderSize, length);
  Digest mac = hmac_({rest.substr(0, kMacAt), payload});
  if (!equal_in_constant_time(rest.substr(kMacAt, kMacSize), as_bytes(mac).substr(0, kMacSize)))
    throw ProtocolError("a frame is not authentic (its MAC is wrong)");
  auto sequence = get_integer<std::uint64_t>(rest.data() + 4);
  if (sequence != sequence_)
    throw ProtocolError(fmt::format("frame {} came where frame {} was due", sequence, sequence_));
  ++sequence_;
  begin_ += kFrameHeaderSize + length;
  return payload;
}

}  // namespace cohort
