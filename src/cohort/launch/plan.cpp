#include "cohort/launch/plan.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/keep_memory.h"
#include "cohort/base/machine.h"
#include "cohort/base/text.h"
#include "cohort/cluster/scheduler_args.h"
#include "cohort/launch/process.h"
#include "cohort/launch/task_environment.h"
#include "cohort/report/progress.h"

namespace cohort::launch {

using cluster::Address;
using cluster::ClusterSpec;
using cluster::Environment;
using cluster::Role;
using cluster::TaskId;
using cluster::TaskType;

namespace {

constexpr const char* kLocalHost = "127.0.0.1";

std::vector<Address> take_addresses(int count, PortReservation& ports) {
  std::vector<Address> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back({kLocalHost, ports.reserve()});
  return addresses;
}

ClusterSpec lay_out(const JobOptions& options, PortReservation& ports) {
  TaskType chief = options.chief_name == ChiefName::master ? TaskType::master : TaskType::chief;
  auto training = take_addresses(options.workers, ports);
  auto servers = take_addresses(options.ps, ports);
  ClusterSpec cluster;
  if (options.layout == Layout::colocated) {
    cluster = cluster::colocated_layout(training, servers, chief);
  } else {
    if (options.coordinator) {
      cluster.set(TaskType::chief, take_addresses(1, ports));
    } else if (options.chief_name != ChiefName::none) {
      cluster.set(chief, {training.front()});
      training.erase(training.begin());
    }
    cluster.set(TaskType::worker, training);
    cluster.set(TaskType::ps, servers);
  }
  if (options.evaluator) cluster.set(TaskType::evaluator, take_addresses(1, ports));
  cluster.validate();
  return cluster;
}

void add_threads(const JobOptions& options, int tasks, Environment& environment) {
  if (options.threads_per_task)
    environment["OMP_NUM_THREADS"] = std::to_string(*options.threads_per_task);
  else if (!environment.contains("OMP_NUM_THREADS"))
    environment["OMP_NUM_THREADS"] = std::to_string(std::max(1, usable_cores() / tasks));
}

void add_gpus(const JobOptions& options, const Role& role, const std::vector<std::string>& gpus,
              Environment& environment) {
  if (role.task.type == TaskType::ps)
    environment["CUDA_VISIBLE_DEVICES"] = "";  // parameter servers live on the CPU (U1)
  else if (options.gpus_per_worker)
    environment["CUDA_VISIBLE_DEVICES"] =
        role.is_training()
            ? gpus_of_worker(gpus, *options.gpus_per_worker, role.local_size, role.local_rank)
            : "";
}

Environment difference(const Environment& after, const Environment& before) {
  Environment added;
  for (const auto& [name, value] : after)
    if (before.find_value(name) != value) added.emplace(name, value);
  return added;
}

// How much of the terminal's line is left behind `host:role/index `.
void add_progress(const JobIdentity& identity, const TaskId& task, Environment& environment) {
  environment.erase(report::kProgressVariable);  // of a launcher around this one
  auto prefix = fmt::format("{}:{} ", identity.host, to_string(task));
  int columns = identity.terminal_columns - static_cast<int>(prefix.size()) - 1;
  if (columns > 0) environment[report::kProgressVariable] = std::to_string(columns);
}

void add_keep_memory(const JobOptions& options, const TaskId& task, Environment& environment) {
  for (const char* name : {kRestartMarkVariable, kKeepStateVariable})
    environment.erase(name);  // of a launcher around this one
  if (options.task_restarts == 0) return;
  environment[kRestartMarkVariable] = std::to_string(task_fd_number(TaskFd::restart_mark));
  if (task.type == TaskType::ps)
    environment[kKeepStateVariable] = std::to_string(task_fd_number(TaskFd::keep_state));
}

}  // namespace

JobIdentity new_identity(const JobOptions& options, const Environment& environment) {
  JobIdentity identity{.job = new_job_id(), .host = host_name()};
  identity.program = find_program(options.command.front(),
                                  environment.find_value("PATH").value_or("/usr/bin:/bin"));
  identity.output = options.output.empty() ? std::filesystem::path("cohort-output") / identity.job
                                           : options.output;
  return identity;
}

std::vector<PlannedTask> make_plan(const JobOptions& options, const JobIdentity& identity,
                                   int attempt, PortReservation& ports,
                                   const Environment& inherited) {
  ClusterSpec cluster = lay_out(options, ports);
  Address master{kLocalHost, ports.reserve()};
  auto gpus = visible_gpus(inherited);
  auto tasks = cluster.tasks();
  std::vector<PlannedTask> plan;
  for (const TaskId& task : tasks) {
    Role role{.task = task,
              .cluster = cluster,
              .chief_trains = !options.coordinator,
              .job = identity.job,
              .strategy = options.strategy,
              .output = identity.output.string(),
              .attempt = attempt,
              .max_restarts = options.max_restarts,
              .store = identity.store,
              .master = master,
              .horovod_rendezvous = identity.horovod_rendezvous};
    cluster::fill_ranks(role);

    PlannedTask planned{.role = role, .host = identity.host, .command = options.command};
    Environment& environment = planned.environment;
    environment = inherited;
    apply_proxy_mode(environment, options.proxy, {"localhost", kLocalHost, "::1", identity.host});
    add_threads(options, static_cast<int>(tasks.size()), environment);
    add_gpus(options, role, gpus, environment);
    add_progress(identity, task, environment);
    environment.try_emplace("PYTHONUNBUFFERED", "1");  // a log that lags hides the last words
    cluster::write_all_dialects(role, environment);
    if (identity.has_secret)
      environment["COHORT_SECRET_FD"] = std::to_string(task_fd_number(TaskFd::secret));
    add_keep_memory(options, task, environment);
    for (const auto& [name, value] : options.environment) environment[name] = value;
    planned.added = difference(environment, inherited);
    for (const auto& [name, value] : inherited)
      if (!environment.contains(name)) planned.removed.push_back(name);

    if (options.scheduler_args) {
      auto extra = cluster::write_scheduler_args(role);
      planned.command.insert(planned.command.end(), extra.begin(), extra.end());
    }
    planned.log = identity.output / "logs" /
                  fmt::format("{}-{}.attempt{}.log", to_string(task.type), task.index, attempt);
    plan.push_back(std::move(planned));
  }
  return plan;
}

std::string describe(const std::vector<PlannedTask>& plan) {
  std::string text;
  for (const auto& task : plan) {
    text += fmt::format("# {} on {}, log {}\nenv", to_string(task.role.task), task.host,
                        task.log.string());
    for (const auto& name : task.removed) text += fmt::format(" \\\n  -u {}", shell_quote(name));
    for (const auto& [name, value] : task.added)
      text += fmt::format(" \\\n  {}={}", name, shell_quote(value));
    text += " \\\n ";
    for (const auto& word : task.command) text += " " + shell_quote(word);
    text += "\n\n";
  }
  return text;
}

std::string new_job_id() {
  std::random_device random;
  return fmt::format("{:%Y%m%d-%H%M%S}-{:08x}", fmt::localtime(std::time(nullptr)), random());
}

}  // namespace cohort::launch
