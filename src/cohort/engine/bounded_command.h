#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cohort/cluster/environment.h"

namespace cohort::engine {

// How a small command of this machine ended.
struct CommandAnswer {
  bool ended = true;   // false: it took too long, and was killed
  int exit_code = -1;  // 128 + signal
  std::string output;  // standard output, 16 MiB at most
  std::string error;   // its last lines of standard error, without control characters

  bool ok() const { return ended && exit_code == 0; }
  // "sbatch: error: Invalid qos" or how it ended, for messages.
  std::string said() const;
};

// Runs `words` with nothing on standard input, for at most `limit`. For any thread. Throws
// InvalidInput when there is no such program, SystemError.
CommandAnswer run_command(
    const std::vector<std::string>& words, std::chrono::milliseconds limit,
    const cluster::Environment& environment = cluster::Environment::of_this_process());

}  // namespace cohort::engine
