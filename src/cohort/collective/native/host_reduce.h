#pragma once

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

// all_reduce, reduce and reduce_scatter over several hosts, in the one order of addition: see
// docs/algorithms.md, "Between hosts".
void host_reduce(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
