#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/engine/attempt_folder.h"
#include "cohort/launch/job/hosts.h"

// How the processes of an MPI job are started: by a real mpirun, which is the one task of the
// launcher.
namespace cohort::engine {

// mpirun's host file: each host with its slots; without hosts, this machine with all of them.
std::string host_file_text(const std::vector<launch::Host>& hosts, int processes,
                           int processes_per_host);

// The whole command line but for the program. Lines of the ranks are tagged with their numbers, and
// kept for each rank (AttemptFolder::ranks). `mpirun` is the program to use.
std::vector<std::string> mpirun_command(const AttemptRequest& request,
                                        const launch::JobOptions& asked);

// The rank whose failure ended the job, as mpirun's own report at the end of its log names it:
// "rank 1 ended with exit code 3: ValueError: no data"; "" when there is none.
std::string failed_rank(std::string_view log_end);

}  // namespace cohort::engine
