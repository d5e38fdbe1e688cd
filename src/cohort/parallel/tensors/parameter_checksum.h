#pragma once

#include "cohort/collective/group.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

// Collective. InvalidInput on every rank, with two ranks and the first parameter in which they
// differ, unless all have the same values (compared by checksum) in the same order. Without effect
// on a group of one.
void expect_same_parameters(collective::Group& group, const NamedTensors& parameters);

}  // namespace cohort::parallel
