#pragma once

#include <string>
#include <vector>

namespace cohort::tools {

// Carries out `cohort host-task`, which remote shells start (docs/launcher.md): runs the task that
// comes on standard input. Returns the program's exit code. Throws InvalidInput.
int host_task_command(const std::vector<std::string>& words,
                      const std::vector<std::string>& program);

}  // namespace cohort::tools
