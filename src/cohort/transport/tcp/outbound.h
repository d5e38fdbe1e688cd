#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "cohort/base/net/frame_codec.h"
#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {

// The other direction: one frame at a time, the chunk's bytes sent from where they lie. Owns no
// socket: the caller writes what prepare() names, then tells commit(). Confined to one thread at a
// time.
class Outbound {
 public:
  explicit Outbound(const Digest& key);

  bool idle() const { return written_ == frame_.size() + payload_bytes_; }

  // Only when idle. `payload` must stay until idle again or detach().
  void start(ChunkHeader header, const std::byte* payload);  // fills in the checksum
  void start(const Goodbye& goodbye);
  void start(const Beat& beat);

  int prepare(std::array<iovec, 2>& places) const;
  void commit(std::size_t bytes) { written_ += bytes; }

  // Copies what is left of the payload, so that its owner may take it back.
  void detach();

 private:
  void start_frame(const std::string& control);

  FrameEncoder encoder_;
  std::string frame_;
  const std::byte* payload_ = nullptr;
  std::size_t payload_bytes_ = 0;
  std::size_t written_ = 0;  // of frame and payload
  std::vector<std::byte> copy_;
};

}  // namespace cohort::transport::tcp
