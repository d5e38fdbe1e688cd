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
// Each line of a rank is tagged with its number ("[1,0]<stdout>:"), and the lines of each rank are
// kept beside (AttemptFolder::ranks).
std::vector<std::string> mpirun_command(const AttemptRequest& request,
                                        const launch::JobOptions& asked);

// Variables that mpirun itself needs: it refuses to run as root without being told twice.
std::map<std::string, std::string> mpirun_variables();

// Which rank failed first, as the ranks themselves say (line_relay.h), else as mpirun's own report
// does, with the last words of that rank: "rank 1 ended with exit code 3: ValueError: no data"; "" when it reports none.
std::string failed_rank(std::string_view log);

}  // namespace cohort::engine
