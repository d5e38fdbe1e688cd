#pragma once

#include "cohort/collective/native/agree.h"

namespace cohort::collective {

// all_reduce, or reduce (then only call.root gets the result), among the members of one domain.
// Steps and bytes: docs/algorithms.md, "Inside a host".
void local_all_reduce(LocalChannel& channel, const Agreement& agreement, const Call& call,
                      Deadline deadline);

}  // namespace cohort::collective
