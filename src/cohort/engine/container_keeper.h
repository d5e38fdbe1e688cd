#pragma once

#include <string>

#include "cohort/engine/engine.h"

namespace cohort::engine {

// Starts a process that outlives this one, waits for its end, however that comes, then until
// nothing of the job runs any more, and removes the containers of the attempt that are left: a
// container's processes end with their job (launch/process/leftovers.h), but one whose tool was
// killed stays on the tool's books, and with docker it may run on. It is no descendant of this
// process: ending leftovers does not hit it. It says what it removed on standard error. `job` is
// what COHORT_JOB says. Call it before adopt_orphans(), in a process of one thread. Throws
// SystemError.
void start_container_keeper(const AttemptRequest& request, const std::string& job);

}  // namespace cohort::engine
