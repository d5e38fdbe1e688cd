#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/process/checked_wait.h"
#include "cohort/transport/arena.h"
#include "cohort/transport/rendezvous.h"
#include "cohort/transport/shm/carried_memory.h"

namespace cohort::transport::shm {

// Proves to the peer at the other end of a connected socket that we belong to the job, and checks
// that it does; throws AuthError. `server` is true on the side that accepted.
using Authenticate =
    std::function<void(int socket, bool server, Deadline deadline, const Check& check)>;

struct JoinOptions {
  std::string key;  // unique to this arena, the same for all its ranks
  int rank = 0;     // in the arena
  int size = 1;
  std::size_t part_bytes = 0;  // address space of each rank's part; 0: default_part_bytes()
  Authenticate authenticate;   // besides this, only processes of the same user are let in
  Check check = {};            // ends the wait for the others, wherever it is
  // Where this process's memory may come from, and is left; nullptr: it is new. With the claims of
  // all ranks, by rank.
  std::shared_ptr<CarriedMemory> carried = {};
  std::vector<std::string> claims = {};
};

// 64 GiB a rank: address space only, pages are taken when touched.
std::size_t default_part_bytes();

// The arena of `size` processes (or threads) on one host. Rank 0 makes a sparse memfd and hands it
// to the others over a Unix socket in the abstract namespace: no name in any file system, nothing
// left behind by kill -9. Every rank then watches the others' processes by pidfd, and marks a dead
// one within milliseconds. Where all hold the memory of an earlier arena, and no one else can reach
// it (CarriedMemory), the arena is there instead.
// Collective: all ranks call it. Throws TimeoutError, AuthError, SystemError, PeerError, and what
// `check` does.
std::shared_ptr<Arena> join(Rendezvous& rendezvous, const JoinOptions& options, Deadline deadline);

}  // namespace cohort::transport::shm
