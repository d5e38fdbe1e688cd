#pragma once

#include "cohort/collective/native/agree.h"

namespace cohort::collective {

// The data movement of any call whose ranks are all members of one domain, after agree().
void local_execute(LocalChannel& channel, const Agreement& agreement, const Call& call,
                   Deadline deadline);

}  // namespace cohort::collective
