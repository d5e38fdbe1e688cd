#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/crypto/hmac.h"

// Control frames, as they follow the handshake on every connection:
//
//   length u32 | sequence u64 | MAC[16] | payload[length]
//
// The MAC is HMAC-SHA256 under the direction's session key, cut to 16 bytes, over length, sequence
// and payload. Sequences count from 0 without a gap. So a frame that was changed, dropped,
// repeated, reordered or sent back is noticed. Integers are little-endian. Encoder and decoder are
// each confined to one thread at a time.
namespace cohort {

constexpr std::size_t kFrameHeaderSize = 4 + 8 + 16;

class FrameEncoder {
 public:
  // `max_payload`: what the other side's decoder takes.
  FrameEncoder(const Digest& key, std::size_t max_payload);

  // Appends header and payload to `out`. Throws InvalidInput, and appends nothing, when too long.
  void encode(std::string_view payload, std::string& out);

  // The header alone, for callers that send the payload from where it lies.
  std::array<char, kFrameHeaderSize> header(std::string_view payload);

 private:
  Hmac hmac_;
  std::size_t max_payload_;
  std::uint64_t sequence_ = 0;
};

// Takes bytes as they arrive. A length over the bound is refused as soon as its four bytes are
// there; memory grows with bytes received, never with bytes announced.
class FrameDecoder {
 public:
  FrameDecoder(const Digest& key, std::size_t max_payload);

  void feed(std::string_view bytes);

  // The next whole, authentic payload; nothing when more bytes are needed. Valid until the next
  // call of feed() or next(). Throws ProtocolError (too long, wrong MAC, wrong sequence): the
  // connection is then beyond use, and so is the decoder.
  std::optional<std::string_view> next();

  std::size_t buffered() const { return buffer_.size() - begin_; }

 private:
  Hmac hmac_;
  std::size_t max_payload_;
  std::uint64_t sequence_ = 0;
  std::string buffer_;
  std::size_t begin_ = 0;  // bytes of buffer_ that were handed out already
};

}  // namespace cohort
