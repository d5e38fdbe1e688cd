#pragma once

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

// all_reduce over several hosts where latency counts, agreement included:
//   1. the members of each host show their contributions to the leader, who reduces the host's
//      maximal subtrees alone;
//   2. the leaders exchange partials, described by their calls: exchange_all or recursive_doubling;
//   3. the leader broadcasts the result inside its host.
void small_all_reduce(const Hosts& hosts, const Call& call, HostAllReduce algorithm,
                      Deadline deadline);

}  // namespace cohort::collective
