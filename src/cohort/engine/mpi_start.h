#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/job.h"

// How the processes of an MPI job are started: by a real mpirun (Open MPI's), which is the one task
// of the launcher.
namespace cohort::engine {

// mpirun's host file: each host with its slots; without hosts, this machine with all of them.
std::string host_file_text(const std::vector<launch::Host>& hosts, int processes);

// The command line of mpirun but for the program; `hosts` and `remote` as the launcher has them.
// What it writes is for run_mpirun() (mpi_ranks.h).
std::vector<std::string> mpirun_command(const AttemptRequest& request,
                                        const launch::JobOptions& asked);

// Variables that mpirun itself needs: it refuses to run as root without being told twice.
std::map<std::string, std::string> mpirun_variables();

// Which rank was killed together with the process that would have told (mpi_ranks.h), as mpirun's
// own report says; "" when there is none.
std::string killed_rank(std::string_view log);

}  // namespace cohort::engine
