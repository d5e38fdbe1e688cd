#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/job.h"

// What `cohort attempt FOLDER` makes of a request before the launcher runs it.
namespace cohort::engine {

// The job for the launcher. `asked` is what the request's run_words say; `cohort` is the program
// that runs now, and the wrapper of every task (task_start.h). With MPI the launcher has one task,
// mpirun. Throws InvalidInput.
launch::JobOptions attempt_options(const AttemptRequest& request, launch::JobOptions asked,
                                   const std::filesystem::path& cohort);

// What the launcher inherits: the GPUs that the queue gave to the attempt, and no others.
cluster::Environment attempt_environment(const AttemptRequest& request);

// Checks that program and data are in place, on every host, and puts the source there; makes the
// folders that the job writes to. Says all that is missing at once: throws InvalidInput.
void put_in_place(const AttemptRequest& request, const launch::JobOptions& asked);

}  // namespace cohort::engine
