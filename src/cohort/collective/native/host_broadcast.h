#pragma once

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

// broadcast over several hosts. On each host one rank **relays**: the root on its own, else the
// leader; the others copy from it. Between relays, by TuningTable::broadcast:
//   flat:     the root sends to every relay. One step; the root sends B (H-1) bytes.
//   binomial: a relay that has the data sends it on, to the relays at distance 2^k, farthest first.
//             ceil(log2 H) steps; no rank sends more than B ceil(log2 H) bytes.
void host_broadcast(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
