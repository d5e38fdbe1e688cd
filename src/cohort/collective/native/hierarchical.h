#pragma once

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

// Any call whose ranks run on more than one host. First all ranks compare their calls (here by the
// channel, between hosts by one small message from each leader to each other), then data moves: see
// docs/algorithms.md, "Between hosts". A failure anywhere breaks the channel, too.
void hierarchical_execute(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
