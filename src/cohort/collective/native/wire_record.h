#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cohort/collective/native/agree.h"

namespace cohort::collective {

// What a leader tells the other leaders about its host's call: the call, or that the ranks of its
// host already disagree. Fixed size, little-endian, no pointers.
struct WireRecord {
  static constexpr std::size_t kBytes = 1024;
  using Bytes = std::array<std::byte, kBytes>;

  CallRecord record{};   // refs and exposures are not sent
  std::string mismatch;  // empty: the host agrees

  Bytes encode() const;
  // Where the text would stand: while there is none, small data may travel here.
  static constexpr std::size_t kPayloadAt = 8 * 8;
  static constexpr std::size_t kPayloadBytes = kBytes - kPayloadAt;
  static std::byte* payload(Bytes& bytes) { return bytes.data() + kPayloadAt; }

  // Nothing when a field is out of range.
  static std::optional<WireRecord> decode(const Bytes& bytes);
};

}  // namespace cohort::collective
