#include "cohort/tools/host_task_command.h"

#include <CLI/CLI.hpp>

#include "cohort/launch/task/host_task.h"
#include "cohort/tools/command_line.h"

namespace cohort::tools {

int host_task_command(const std::vector<std::string>& words, const std::vector<std::string>&) {
  CLI::App app(
      "Runs one task of a job on this host. `cohort run` starts this command by itself, through\n"
      "its --remote-shell, and sends the task on standard input.",
      "host-task");
  if (!parse_words(app, words)) return 0;
  return launch::run_host_task({});
}

}  // namespace cohort::tools
