#pragma once

#include <vector>

#include "cohort/collective/backend/peer.h"

namespace cohort::collective {

// Where the ranks of a group run. `host_of[r]` numbers the hosts in order of their lowest rank.
struct Placement {
  std::vector<Peer> peers;   // by rank
  std::vector<int> host_of;  // by rank

  int hosts() const;
  std::vector<int> ranks_on(int host) const;  // ascending; the first is the leader
};

}  // namespace cohort::collective
