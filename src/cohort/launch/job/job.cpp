#include "cohort/launch/job/job.h"

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

// A program may have strategies of its own; a slip in the name of a known one is a mistake.
void check_strategy(const std::string& strategy) {
  const std::vector<std::string> known = {"one_device", "mirrored", "multi_worker_mirrored",
                                          "parameter_server"};
  std::string meant = nearest(strategy, known);
  if (meant.empty() || strategy == meant || strategy == "ps") return;
  throw InvalidInput(fmt::format("unknown --strategy '{}'", strategy),
                     {.advice = fmt::format("Did you mean {}?", meant)});
}

bool is_parameter_server_strategy(const std::string& strategy) {
  return strategy == "parameter_server" || strategy == "ps";
}

int count_of(TaskType type, const JobOptions& options) {
  bool first_is_chief = options.chief_name != ChiefName::none;
  switch (type) {
    case TaskType::worker:
      return options.workers - (first_is_chief ? 1 : 0);
    case TaskType::ps:
      return options.ps;
    case TaskType::evaluator:
      return options.evaluator ? 1 : 0;
    case TaskType::chief:
      return options.coordinator || options.chief_name == ChiefName::chief ? 1 : 0;
    case TaskType::master:
      return options.chief_name == ChiefName::master ? 1 : 0;
  }
  return 0;
}

// A filter that shows nothing looks like a job that hangs.
void check_show(const JobOptions& options) {
  for (const auto& text : options.show) {
    bool whole_type = text.find_first_of(":/") == std::string::npos;
    TaskId task =
        whole_type ? TaskId{cluster::parse_task_type(text), 0} : cluster::parse_task_id(text);
    int count = count_of(task.type, options);
    if (task.index < count) continue;
    throw InvalidInput(
        fmt::format("--show {} names no task of this job, which has {} of type {}", text, count,
                    to_string(task.type)),
        {.advice = count == 0 ? "Name a type that it has, as in --show worker."
                              : fmt::format("Use an index from 0 to {}.", count - 1)});
  }
}

void require_at_least(int least, int value, const char* option, std::string advice = "") {
  if (value < least)
    throw InvalidInput(fmt::format("{} must be at least {}, got {}", option, least, value),
                       {.advice = std::move(advice)});
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

void check_elastic_limits(const ElasticOptions& elastic) {
  using std::chrono::milliseconds;
  if (elastic.least < 1 || elastic.least > elastic.most)
    throw InvalidInput(fmt::format("-n {}:{} is no range of workers", elastic.least, elastic.most),
                       {.advice = "Give LEAST:MOST with 1 <= LEAST <= MOST, as in -n 2:8."});
  if (elastic.lease < milliseconds(50) || elastic.lease > std::chrono::hours(1))
    throw InvalidInput(fmt::format("--lease must be from 0.05 to 3600 seconds, got {}",
                                   static_cast<double>(elastic.lease.count()) / 1000.0));
  if (elastic.timeout < milliseconds(1))
    throw InvalidInput(fmt::format("--elastic-timeout must be more than 0 seconds, got {}",
                                   static_cast<double>(elastic.timeout.count()) / 1000.0));
  require_at_least(0, elastic.task_restarts, "--max-restarts", "0 starts no worker again.");
}

// Workers of an elastic job are all alike and come and go; whatever else takes part does not.
void settle_elastic(JobOptions& options) {
  check_elastic_limits(*options.elastic);
  const auto refuse = [](const std::string& what, const std::string& advice) {
    throw InvalidInput(fmt::format("--elastic and {} exclude each other", what),
                       {.advice = advice});
  };
  if (options.ps > 0 || options.layout == Layout::colocated)
    refuse(options.ps > 0 ? "--ps" : "--layout colocated",
           "Jobs with parameter servers have their own rules: leave --elastic out.");
  if (options.evaluator) refuse("--evaluator", "Evaluate on the workers, or leave --elastic out.");
  if (options.chief_name != ChiefName::none)
    refuse("--chief-name", "The first of the members is the chief: leave --chief-name out.");
  if (options.coordinator)
    refuse("--coordinator", "`cohort run` itself coordinates an elastic job.");
  if (!options.strategy.empty() && options.strategy != "multi_worker_mirrored")
    refuse(fmt::format("--strategy {}", options.strategy),
           "Use --strategy multi_worker_mirrored, or leave it out.");
  if (options.success.value_or(SuccessPolicy::all_workers) != SuccessPolicy::all_workers)
    refuse("--success", "An elastic job succeeds when all its last members do.");
  options.workers = options.elastic->most;
  options.max_restarts = options.task_restarts = 0;
}

// The system would end the word there, and run or say something else than was written.
void require_no_nul(const char* what, const std::string& word) {
  if (const auto at = word.find('\0'); at != std::string::npos)
    throw InvalidInput(fmt::format("a word of {} has a zero byte behind '{}'", what,
                                   escape_controls(std::string_view(word).substr(0, at))),
                       {.advice = "Leave the zero byte out."});
}

}  // namespace

void settle(JobOptions& options) {
  if (options.command.empty() || options.command.front().empty())
    throw InvalidInput("no program to run",
                       {.advice = "Put it after --, as in: cohort run -n 2 -- ./train --epochs 3"});
  for (const std::string& word : options.command) require_no_nul("the program's command", word);
  for (const auto& [name, value] : options.environment) {
    require_no_nul("--env", name);
    require_no_nul("--env", value);
  }
  if (options.elastic) settle_elastic(options);
  require_at_least(1, options.workers, "--workers", "Give -n 1 or more.");
  require_at_least(0, options.ps, "--ps");
  if (options.grace.count() < 0)
    throw InvalidInput(fmt::format("--grace must be at least 0 seconds, got {}",
                                   static_cast<double>(options.grace.count()) / 1000.0));
  require_at_least(0, options.keep, "--keep", "0 keeps all runs under cohort-output.");
  require_at_least(0, options.max_restarts, "--max-restarts", "0 restarts nothing.");
  require_at_least(0, options.task_restarts, "--task-restarts", "0 starts no task again alone.");
  if (options.horovod &&
      (!options.hosts.empty() || (options.elastic && !options.elastic->discovery_script.empty())))
    throw InvalidInput(
        "--horovod and hosts exclude each other: Horovod's key-value store knows no "
        "secret, so it is for tasks of this machine only",
        {.advice = "Run the job on this machine, or start it with horovodrun."});
  require_at_least(0, options.gpus_per_worker.value_or(0), "--gpus-per-worker", "0: none.");
  require_at_least(1, options.threads_per_task.value_or(1), "--threads-per-task");
  require_at_least(1, options.slots_per_host.value_or(1), "--slots-per-host");
  for (Host& host : options.hosts)
    if (!host.slots) host.slots = options.slots_per_host;
  require_slots(options.hosts, options.elastic ? options.elastic->least : options.workers);
  if (has_other_hosts(options)) parse_remote_shell(options.remote.shell, options.remote.cohort);
  if (options.layout == Layout::colocated) settle_colocated(options);
  check_strategy(options.strategy);
  check_show(options);
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
    std::error_code code;
    fs::path folder = fs::current_path(code);
    throw InvalidInput(fmt::format("program '{}' not found", program),
                       {.advice = code ? "The current folder has been deleted: change to another."
                                       : fmt::format("Looked in the folder {}; give another path.",
                                                     folder.string())});
  }
  for (const auto& folder : split(path_variable, ':')) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
    if (usable(candidate)) return candidate;
  }
  if (fs::exists(program) && !usable(program)) return find_program("./" + program, path_variable);
  throw InvalidInput(fmt::format("program '{}' not found in PATH", program),
                     {.advice = fs::exists(program) ? fmt::format("Did you mean ./{}?", program)
                                                    : "Give its path, or check its spelling."});
}

bool has_other_hosts(const JobOptions& options) {
  return (options.elastic && !options.elastic->discovery_script.empty()) ||
         std::any_of(options.hosts.begin(), options.hosts.end(),
                     [](const Host& host) { return !is_this_machine(host.name); });
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
