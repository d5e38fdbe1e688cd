#include "cohort/launch/job.h"

#include <unistd.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::launch {

using cluster::TaskId;
using cluster::TaskType;

SuccessPolicy JobOptions::success_policy() const {
  return success.value_or(coordinator ? SuccessPolicy::chief : SuccessPolicy::all_workers);
}

namespace {

bool is_parameter_server_strategy(const std::string& strategy) {
  return strategy == "parameter_server" || strategy == "ps";
}

void settle_colocated(JobOptions& options) {
  if (options.coordinator)
    throw InvalidInput("--layout colocated and --coordinator exclude each other",
                       {.advice = "In the colocated layout host 0 trains as the chief: leave "
                                  "--coordinator out, or use --layout separate."});
  if (options.ps == 0) options.ps = options.workers;
  if (options.ps != options.workers)
    throw InvalidInput(fmt::format("--layout colocated puts one parameter server beside each of "
                                   "the {} workers, but --ps is {}",
                                   options.workers, options.ps),
                       {.advice = fmt::format("Leave --ps out or give --ps {}.", options.workers)});
  if (options.chief_name == ChiefName::none) options.chief_name = ChiefName::chief;
}

}  // namespace

void settle(JobOptions& options) {
  if (options.command.empty() || options.command.front().empty())
    throw InvalidInput("no program to run",
                       {.advice = "Put it after --, as in: cohort run -n 2 -- ./train --epochs 3"});
  if (options.workers < 1)
    throw InvalidInput(
        fmt::format("--workers is {}, but a job needs at least one worker", options.workers),
        {.advice = "Give -n 1 or more."});
  if (options.ps < 0)
    throw InvalidInput(fmt::format("--ps is {}", options.ps), {.advice = "Give 0 or more."});
  if (options.grace.count() < 0)
    throw InvalidInput(fmt::format("--grace is {} s", options.grace.count() / 1000.0),
                       {.advice = "Give 0 or more seconds."});
  if (options.max_restarts < 0)
    throw InvalidInput(fmt::format("--max-restarts is {}", options.max_restarts),
                       {.advice = "Give 0 (never restart) or more."});
  require_this_machine(options.hosts, options.workers);
  if (options.layout == Layout::colocated) settle_colocated(options);
  if (is_parameter_server_strategy(options.strategy) && options.ps == 0)
    throw InvalidInput(
        fmt::format("--strategy {} needs parameter servers, but --ps is 0", options.strategy),
        {.advice = "Add --ps 1 (or more), or --layout colocated."});
  if (options.coordinator && options.chief_name == ChiefName::master)
    throw InvalidInput("--coordinator and --chief-name master exclude each other",
                       {.advice = "TensorFlow's coordinator is called chief: leave --chief-name "
                                  "out."});
  if (options.coordinator && options.chief_name == ChiefName::chief)
    throw InvalidInput(
        "--coordinator and --chief-name chief exclude each other: the one adds a "
        "chief beside the workers, the other makes the first worker the chief",
        {.advice = "Choose one of them."});
  if (options.evaluator && options.chief_name == ChiefName::master)
    throw InvalidInput("--evaluator and --chief-name master exclude each other",
                       {.advice = "Use --chief-name chief."});
}

std::filesystem::path find_program(const std::string& program, const std::string& path_variable) {
  namespace fs = std::filesystem;
  auto usable = [](const fs::path& path) {
    return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path);
  };
  if (program.find('/') != std::string::npos) {
    if (usable(program)) return program;
    if (fs::is_directory(program))
      throw InvalidInput(fmt::format("program '{}' is a folder", program),
                         {.advice = "Name the file to run."});
    if (fs::exists(program)) {
      bool python = fs::path(program).extension() == ".py";
      throw InvalidInput(
          fmt::format("program '{}' is not executable", program),
          {.advice = python ? fmt::format("Run it as: cohort run -- python3 {}", program)
                            : fmt::format("Try: chmod +x {}", shell_quote(program))});
    }
    throw InvalidInput(fmt::format("program '{}' not found", program),
                       {.advice = fmt::format("Looked in the folder {}; give another path.",
                                              fs::current_path().string())});
  }
  for (const auto& folder : split(path_variable, ':')) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
    if (usable(candidate)) return candidate;
  }
  throw InvalidInput(fmt::format("program '{}' not found in PATH", program),
                     {.advice = fs::exists(program) ? fmt::format("Did you mean ./{}?", program)
                                                    : "Give its path, or check its spelling."});
}

bool is_service(TaskType type) { return type == TaskType::ps || type == TaskType::evaluator; }

std::vector<TaskId> gating_tasks(const std::vector<TaskId>& tasks, SuccessPolicy policy) {
  std::vector<TaskId> training;
  std::copy_if(tasks.begin(), tasks.end(), std::back_inserter(training),
               [](const TaskId& task) { return !is_service(task.type); });
  if (policy == SuccessPolicy::all_workers) return training;
  auto is_chief = [](const TaskId& task) {
    return task.type == TaskType::chief || task.type == TaskType::master;
  };
  auto is_worker0 = [](const TaskId& task) { return task == TaskId{TaskType::worker, 0}; };
  auto found = training.end();
  if (policy == SuccessPolicy::chief)
    found = std::find_if(training.begin(), training.end(), is_chief);
  if (found == training.end()) found = std::find_if(training.begin(), training.end(), is_worker0);
  // worker0 of a job whose only training task is its chief.
  if (found == training.end()) found = training.begin();
  return {*found};
}

}  // namespace cohort::launch
