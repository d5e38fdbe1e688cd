#pragma once

#include "cohort/collective/native/agree.h"

namespace cohort::collective {

// For an all_reduce of `bytes` whose output peers can reach, and whose input they cannot: copies what
// the others reduce of the input to the same place in the output, and says that they find it there.
// What this member reduces itself is read from the input, so it is not copied. Before agree(); does
// nothing in all other cases.
void expose_in_output(LocalChannel& channel, const Call& call, Exposure& exposure);

// all_reduce, or reduce (then only call.root gets the result), among the members of one domain.
// Steps and bytes: docs/algorithms.md, "Inside a host".
void local_all_reduce(LocalChannel& channel, const Agreement& agreement, const Call& call,
                      Deadline deadline);

}  // namespace cohort::collective
