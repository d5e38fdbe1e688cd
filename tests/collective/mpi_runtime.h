#pragma once

#include "cohort/collective/mpi/mpi.h"

namespace cohort::collective::testing {

// MPI as main() started it.
const mpi::Runtime& runtime();

}  // namespace cohort::collective::testing
