#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>

#include "cohort/transport/messenger.h"

namespace cohort::transport::faulty {

// What goes wrong, counted in messages that this rank sends, from 0.
struct Faults {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::chrono::milliseconds delay{0};  // before each message counts as sent or received
  std::uint64_t drop = kNever;         // this message is never sent, though it seems to be
  std::uint64_t corrupt = kNever;      // one bit of this message is flipped
  std::uint64_t cut = kNever;  // from this message on nothing comes or goes, and no error says so
};

// A messenger for tests: `inner` with faults. Damage done here lies above the transport's own
// checksum, so it arrives; what happens to bytes on the wire is for a proxy to do.
// Threads, ownership, failure: as Messenger.
std::unique_ptr<Messenger> make_messenger(std::unique_ptr<Messenger> inner, Faults faults);

}  // namespace cohort::transport::faulty
