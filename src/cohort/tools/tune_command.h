#pragma once

#include <string>
#include <vector>

namespace cohort::tools {

// `cohort tune [-n N] [--output FILE]`: measures the collective algorithms on this machine with N
// processes and writes the table that COHORT_TUNING=FILE makes jobs use. Starts itself N times
// through the launcher. Hosts are made up: each process counts as one, and they talk over TCP on
// loopback. Returns the exit code. Throws InvalidInput.
int tune_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
