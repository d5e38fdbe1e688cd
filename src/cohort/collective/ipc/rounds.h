#pragma once

#include <functional>
#include <vector>

#include "cohort/collective/ipc/endpoint.h"

namespace cohort::collective::ipc {

// One call on one stream, as a sequence of rounds. In round k a rank fills its slot k % 2, meets its
// peers, and reads theirs.
//
// A rank has three words from each peer: `even` and `odd`, at first 0, and `done`, at first 1. Each is
// written 1 by that peer's stream, waited for by this rank's, and then written 0 by it:
//
//   begin     wait for done, write it 0              all peers are past the call before
//   round k   fill slot k % 2
//             write 1 to the peer's even (k even) or odd (k odd) word for this rank
//             wait for the own one, write it 0       the peer's slot is filled
//             read the peer's slot k % 2
//   end       write 1 to the peers' done words       this rank reads no slot any more
//
// No 1 is written over one that was not waited for yet: round k + 2 comes after the peer's signal of
// round k + 1, which the peer gives after it has written 0 in round k; a call's first rounds come
// after the peers' `done`; and `done` comes after a round, whose signal the peer gave after it had
// written 0 to the `done` before. A slot is filled again in round k + 2 for the same reason: the
// peer's signal of round k + 1 says that it has read round k.
// So between two calls every word has its first value again. Nothing is counted: what a stream does in
// a call is the same each time, and can be captured into a graph and replayed.
//
// Pairs of ranks need not have as many rounds as others, but each has at least one (for `done`), and
// theirs are the first of the call.
// Cost of a round: 3 steps on words for each peer, in one call of the driver.
class Rounds {
 public:
  // `endpoint` must outlive it.
  Rounds(Endpoint& endpoint, DeviceStream stream) : endpoint_(endpoint), stream_(stream) {}

  void begin();
  // Where this rank's data for the next round goes.
  CudaDriver::Address own_slot() const;
  // The next round, with the peers for which `takes_part` holds; all in the first.
  void meet(const std::function<bool(int peer)>& takes_part = {});
  // What `peer` gave in the last round.
  CudaDriver::Address slot_of(int peer) const;
  void end();

 private:
  Endpoint& endpoint_;
  DeviceStream stream_;
  int rounds_ = 0;
  std::vector<CudaDriver::WordStep> steps_;
};

}  // namespace cohort::collective::ipc
