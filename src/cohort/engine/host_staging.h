#pragma once

#include <string>
#include <vector>

#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine {

// Where a packed source lies on a host, below the home folder of its user.
inline constexpr const char* kStagedSources = ".cache/cohort/sources";

// Puts the request's source on every host of `asked` that has it not yet, through its remote shell:
// the archive goes to `cohort exec-task --stage` there, which verifies its hash. Then asks each
// what it lacks. All hosts at once. Throws InvalidInput that says what is missing where, for all
// hosts; nothing has been started then.
void stage_on_hosts(const AttemptRequest& request, const launch::JobOptions& asked);

}  // namespace cohort::engine
