#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>

#include "cohort/base/error.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/container_start.h"
#include "cohort/engine/host_staging.h"
#include "cohort/engine/mpi_ranks.h"
#include "cohort/engine/task_start.h"
#include "cohort/tools/commands.h"

namespace cohort::tools {
namespace {

struct ExecTaskArguments {
  std::string request;  // attempt.json; "": the variable has it
  bool check = false;
  std::string stage;   // SHA-256
  std::string mpirun;  // the attempt's folder
};

engine::AttemptRequest task_request(const std::string& file,
                                    const cluster::Environment& environment) {
  if (!file.empty()) return engine::read_request({std::filesystem::path(file).parent_path()});
  const auto text = environment.find_value(engine::kTaskVariable);
  if (!text)
    throw InvalidInput(
        fmt::format("cohort exec-task needs the attempt's file, or {}", engine::kTaskVariable),
        {.advice = "It is started by cohort attempt, not by hand."});
  return engine::attempt_from_json(*text, {});
}

int exec_task(const ExecTaskArguments& arguments, const Words& program) {
  const auto environment = cluster::Environment::of_this_process();
  if (arguments.check) {
    const std::string request{std::istreambuf_iterator<char>(std::cin), {}};
    std::cout << engine::answer_check(request, environment) << "\n";
    return 0;
  }
  if (!arguments.stage.empty()) {
    engine::stage_here("/dev/stdin", arguments.stage, environment);
    return 0;
  }
  if (!arguments.mpirun.empty()) engine::run_mpirun({arguments.mpirun}, program, environment);
  engine::begin_as_rank(environment);
  const auto request = task_request(arguments.request, environment);
  const engine::TaskStart start = engine::task_start(request, program, environment);
  engine::exec_task(
      engine::has_image(request.job) ? engine::in_container(request, start, environment) : start);
}

}  // namespace

Command exec_task_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<ExecTaskArguments>();
    app.description(
        "Becomes the program of one task of a submitted job, with the task's environment. `cohort\n"
        "attempt` puts this command before every program.");
    app.add_option("FILE", arguments->request, "attempt.json");
    app.add_flag("--check", arguments->check,
                 "Say what this host lacks for the attempt on standard input");
    app.add_option("--stage", arguments->stage,
                   "Unpack the source on standard input, which has this SHA-256");
    app.add_option("--mpirun", arguments->mpirun,
                   "Run mpirun for the attempt of this folder, and keep what its ranks say");
    return
        [arguments](const Words&, const Words& program) { return exec_task(*arguments, program); };
  };
  return {"exec-task", "", "", declare};
}

}  // namespace cohort::tools
