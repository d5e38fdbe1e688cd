#pragma once

#include <functional>
#include <span>

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/local_channel.h"

namespace cohort::collective {

// A run of bytes in some member's input.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// Which bytes every member reads from every other. `pieces` is 1 when all read the same, or the
// number of members when member i reads piece i. All members describe it alike.
struct ExchangePlan {
  int pieces = 1;
  std::function<Extent(int source, int piece)> extent;
};

// Bytes of one source, as the reader sees them.
struct Chunk {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Called with what every member offers this one, for the bytes from `offset` on of each piece. The
// chunk of the reader itself is its own input.
using Consume = std::function<void(std::size_t offset, std::span<const Chunk> chunks)>;

// Lets every member read its piece of every member's `in`, by the mode that they agreed on.
//   inlined: no more waiting; the data came with the descriptions.
//   direct:  one call of `consume` with everything, then a wait until all have read.
//   staged:  every member copies a window of each piece into a staging buffer while the others read
//            an earlier one (turns.h): each byte is copied once more than in direct.
void exchange(LocalChannel& channel, const Agreement& agreement, const std::byte* in,
              const ExchangePlan& plan, const Consume& consume, Deadline deadline);

}  // namespace cohort::collective
