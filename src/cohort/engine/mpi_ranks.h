#pragma once

#include <string>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"

// The ranks of an MPI job as its tasks: each tells what it writes and how it ends through mpirun
// (rank_lines.h); the process around mpirun keeps it in the attempt's folder.
namespace cohort::engine {

inline constexpr const char* kMpirunTask = "mpirun:0";  // the launcher's only task, its worker:0

// In a process that mpirun started, as `environment` tells: forks. It returns in the child, which is
// to become the rank's program; the parent tells of it, and ends as it does. In others: nothing.
void begin_as_rank(const cluster::Environment& environment);

// `cohort exec-task --mpirun FOLDER`: runs mpirun, and ends as it does. The lines of each rank go to
// FOLDER/ranks/rank-N.attemptK.log, where K is COHORT_ATTEMPT, and their states to
// FOLDER/ranks/ranks.json; what mpirun itself says goes where it would. Throws InvalidInput.
[[noreturn]] void run_mpirun(const AttemptFolder& folder, const std::vector<std::string>& command,
                             const cluster::Environment& environment);

struct Ranks {
  std::vector<TaskStatus> tasks;  // those that have started, by number
  // Which failed first, with its last words: "rank 1 ended with exit code 3: no data"; "": none.
  std::string failure;
};

// Empty where there is no record (yet).
Ranks read_ranks(const AttemptFolder& folder);

}  // namespace cohort::engine
