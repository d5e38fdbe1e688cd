#include <CLI/CLI.hpp>

#include "cohort/launch/task/host_task.h"
#include "cohort/tools/commands.h"

namespace cohort::tools {

Command host_task_command() {
  auto declare = [](CLI::App& app) -> Action {
    app.description(
        "Runs one task of a job on this host. `cohort run` starts this command by itself, through\n"
        "its --remote-shell, and sends the task on standard input.");
    return [](const Words&, const Words&) { return launch::run_host_task({}); };
  };
  return {"host-task", "", "", declare};
}

}  // namespace cohort::tools
