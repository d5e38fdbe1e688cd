#pragma once

#include "cohort/engine/engine.h"
#include "cohort/service/jobs/live_job.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// What an engine gets of a job's newest attempt, but for its source.
engine::AttemptRequest attempt_request(const LiveJob& live, const RunFolders& folders);

// Makes the folders that the request names. Throws InvalidInput for an output of the job's own that
// cannot be made, SystemError where the machine is short of something.
void make_folders(const engine::AttemptRequest& request);

}  // namespace cohort::service
