#pragma once

#include <string>

#include "cohort/collective/native/local_channel.h"

namespace cohort::collective {

// How the members' data is reached in one call; every member comes to the same answer.
//   inlined: every member's data came in the slots. direct: all of it is where peers can reach it.
//   staged: some of it is not, and goes through staging buffers in windows.
enum class Mode { inlined, direct, staged };

struct Agreement {
  std::uint64_t sequence = 0;
  Mode mode = Mode::inlined;
  std::string mismatch;  // not empty: what this member called and what another called
};

// What one member lets the others touch in one call.
struct Exposure {
  const void* in = nullptr;
  std::size_t in_bytes = 0;  // read
  void* out = nullptr;
  std::size_t out_bytes = 0;  // written
  // Up to which size the data in the slots is used although all of it can be reached directly.
  std::size_t inline_bytes = LocalChannel::kInlineBytes;
};

// What `call` exposes when all its ranks are members of this domain.
Exposure exposure_of(const Call& call, int member, int members);

// Whether two ranks called the same; how one rank's call reads in an error.
bool same_call(const CallRecord& a, const CallRecord& b);
std::string describe(const CallRecord& record);
// Rank `from` sends `sent` elements where `to` expects another number.
std::string describe_counts(const Call& call, const Peer& from, std::uint64_t sent, const Peer& to,
                            std::uint64_t expected);

// Publishes `call` (with its data where that is small), waits for the others', and compares.
// `compare_counts`: the counts of all_to_all_v are by member, and are compared pair by pair.
Agreement agree(LocalChannel& channel, const Call& call, const Exposure& exposure,
                bool compare_counts, Deadline deadline);

}  // namespace cohort::collective
