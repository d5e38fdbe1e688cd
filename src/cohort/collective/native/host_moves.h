#pragma once

#include "cohort/collective/native/hosts.h"

namespace cohort::collective {

// all_gather(_v), gather, scatter, all_to_all(_v) over several hosts. A barrier is done
// when all ranks have agreed on it.
void host_move(const Hosts& hosts, const Call& call, Deadline deadline);

}  // namespace cohort::collective
