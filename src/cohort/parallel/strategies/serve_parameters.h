#pragma once

#include "cohort/base/deadline.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/parallel/strategies/make_strategy.h"

namespace cohort::parallel {

// The part of a ps task in a job of the strategy parameter_server: serves its share of the
// parameters and returns when every worker is done, or lost and not coming back. `keep`: what
// outlives the process, or null. Throws InvalidInput for flags that do not fit, what ps::Server
// throws, TimeoutError at the deadline, PeerError when the job's store is gone.
void serve_parameters(const StrategySetup& setup, RestartState* keep, Deadline deadline);

}  // namespace cohort::parallel
