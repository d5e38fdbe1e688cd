#include "cohort/launch/plan/plan.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/scheduler_args.h"
#include "cohort/launch/plan/placement.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/process/process.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/report/progress.h"

namespace cohort::launch {

using cluster::Address;
using cluster::ClusterSpec;
using cluster::Environment;
using cluster::Role;
using cluster::TaskId;
using cluster::TaskType;

namespace {

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

// A host that cannot be asked is taken to have the GPUs that its workers need.
std::vector<std::string> assumed_gpus(const JobOptions& options, const Role& role) {
  std::vector<std::string> gpus;
  for (int i = 0; i < options.gpus_per_worker.value_or(0) * role.local_size; ++i)
    gpus.push_back(std::to_string(i));
  return gpus;
}

Environment difference(const Environment& after, const Environment& before) {
  Environment added;
  for (const auto& [name, value] : after)
    if (before.find_value(name) != value) added.emplace(name, value);
  return added;
}

// How much of the terminal's line is left behind `host:role/index `.
void add_progress(const JobIdentity& identity, const std::string& host, const TaskId& task,
                  Environment& environment) {
  environment.erase(report::kProgressVariable);  // of a launcher around this one
  auto prefix = fmt::format("{}:{} ", host, to_string(task));
  int columns = identity.terminal_columns - static_cast<int>(prefix.size()) - 1;
  if (columns > 0) environment[report::kProgressVariable] = std::to_string(columns);
}

void add_restart_state(const JobOptions& options, const TaskId& task, Environment& environment) {
  for (const char* name : {kRestartFlagVariable, kRestartStateVariable})
    environment.erase(name);  // of a launcher around this one
  if (options.task_restarts == 0) return;
  environment[kRestartFlagVariable] = std::to_string(task_fd_number(TaskFd::restart_flag));
  if (task.type == TaskType::ps)
    environment[kRestartStateVariable] = std::to_string(task_fd_number(TaskFd::keep_state));
}

// Every task's, whatever it runs; a launcher around this one has another.
void add_last_word(Environment& environment) {
  environment[kLastWordVariable] = std::to_string(task_fd_number(TaskFd::last_word));
}

// What other hosts connect to. Where a script tells of them, its first answer decides.
std::string address_of_this_machine(const JobOptions& options) {
  if (!options.remote.address.empty()) return options.remote.address;
  for (const Host& host : options.hosts)
    if (!is_this_machine(host.name)) return address_towards(host.name);
  return "127.0.0.1";
}

}  // namespace

ClusterSpec lay_out(const JobOptions& options, const std::function<Address()>& take) {
  auto take_addresses = [&](int count) {
    std::vector<Address> addresses;
    for (int i = 0; i < count; ++i) addresses.push_back(take());
    return addresses;
  };
  TaskType chief = options.chief_name == ChiefName::master ? TaskType::master : TaskType::chief;
  auto training = take_addresses(options.workers);
  auto servers = take_addresses(options.ps);
  ClusterSpec cluster;
  if (options.layout == Layout::colocated) {
    cluster = cluster::colocated_layout(training, servers, chief);
  } else {
    if (options.coordinator) {
      cluster.set(TaskType::chief, take_addresses(1));
    } else if (options.chief_name != ChiefName::none) {
      cluster.set(chief, {training.front()});
      training.erase(training.begin());
    }
    cluster.set(TaskType::worker, training);
    cluster.set(TaskType::ps, servers);
  }
  if (options.evaluator) cluster.set(TaskType::evaluator, take_addresses(1));
  cluster.validate();
  return cluster;
}

JobIdentity new_identity(const JobOptions& options, const Environment& environment) {
  JobIdentity identity{.job = options.id, .host = host_name()};
  if (identity.job.empty())
    identity.job = options.resume ? read_earlier_job(options.output).job : new_job_id();
  identity.program = find_program(options.command.front(),
                                  environment.find_value("PATH").value_or("/usr/bin:/bin"));
  identity.address = address_of_this_machine(options);
  identity.output = options.output.empty() ? std::filesystem::path("cohort-output") / identity.job
                                           : options.output;
  return identity;
}

Planner::Planner(const JobOptions& options, const JobIdentity& identity, int attempt,
                 PortReservation& ports, const Environment& inherited)
    : options_(options),
      identity_(identity),
      attempt_(attempt),
      inherited_(inherited),
      cluster_(lay_out(options,
                       [&] {
                         return Address{identity.address, ports.reserve()};
                       })),
      gpus_(visible_gpus(inherited)),
      master_port_(ports.reserve()) {
  if (!options_.elastic && !options_.hosts.empty()) place_on_hosts();
}

void Planner::place_on_hosts() {
  std::map<TaskId, std::string> hosts;
  auto of_workers = spread_over_hosts(options_.hosts, options_.workers);
  auto next = of_workers.begin();
  for (const TaskId& task : cluster_.training_tasks(!options_.coordinator)) hosts[task] = *next++;
  for (const TaskId& task : cluster_.tasks()) {
    if (!is_service(task.type) && !(options_.coordinator && task.type == TaskType::chief)) continue;
    const bool spread = task.type == TaskType::ps;
    hosts[task] = options_.hosts[spread ? task.index % options_.hosts.size() : 0].name;
  }
  move(hosts);
}

void Planner::move(const std::map<TaskId, std::string>& hosts) {
  std::map<TaskType, std::vector<Address>> moved;
  for (const auto& [task, host] : hosts) {
    const bool here = is_this_machine(host);
    auto& addresses = moved.try_emplace(task.type, cluster_.addresses(task.type)).first->second;
    addresses.at(static_cast<size_t>(task.index)).host = here ? identity_.address : host;
    if (here)
      remote_.erase(task);
    else
      remote_[task] = host;
  }
  for (auto& [type, addresses] : moved) cluster_.set(type, std::move(addresses));
  common_.reset();
}

const Planner::Common& Planner::common() const {
  if (!common_)
    common_ = Common{.ranks = {cluster_, !options_.coordinator},
                     .texts = cluster::ClusterTexts(cluster_),
                     .tasks_here = static_cast<int>(cluster_.tasks().size() - remote_.size())};
  return *common_;
}

Role Planner::role_of(const TaskId& task, int incarnation) const {
  Role role{.task = task,
            .cluster = cluster_,
            .chief_trains = !options_.coordinator,
            .job = identity_.job,
            .strategy = options_.strategy,
            .output = identity_.output.string(),
            .attempt = attempt_,
            .max_restarts = options_.max_restarts,
            .incarnation = incarnation,
            .resume = options_.resume,
            .store = identity_.store,
            .master = Address{cluster_.address(*common().ranks.first()).host, master_port_},
            .horovod_rendezvous = identity_.horovod_rendezvous};
  common().ranks.fill(role);
  if (options_.elastic)
    role.elastic = cluster::ElasticLimits{options_.elastic->least, options_.elastic->most};
  return role;
}

void Planner::plan_here(PlannedTask& planned) const {
  const Role& role = planned.role;
  Environment& environment = planned.environment;
  environment = inherited_;
  apply_proxy_mode(environment, options_.proxy,
                   {"localhost", "127.0.0.1", "::1", identity_.host, identity_.address});
  add_threads(options_, common().tasks_here, environment);
  add_gpus(options_, role, gpus_, environment);
  add_progress(identity_, planned.host, role.task, environment);
  environment.try_emplace("PYTHONUNBUFFERED", "1");  // a log that lags hides the last words
  cluster::write_all_dialects(role, common().texts, environment);
  if (identity_.has_secret)
    environment["COHORT_SECRET_FD"] = std::to_string(task_fd_number(TaskFd::secret));
  add_restart_state(options_, role.task, environment);
  add_last_word(environment);
  for (const auto& [name, value] : options_.environment) environment[name] = value;
}

void Planner::plan_remotely(PlannedTask& planned, const std::string& host) const {
  const Role& role = planned.role;
  Environment& added = planned.added;
  if (options_.threads_per_task)
    added["OMP_NUM_THREADS"] = std::to_string(*options_.threads_per_task);
  add_gpus(options_, role, assumed_gpus(options_, role), added);
  add_progress(identity_, host, role.task, added);
  added.try_emplace("PYTHONUNBUFFERED", "1");
  cluster::write_all_dialects(role, common().texts, added);
  for (const auto& [name, value] : options_.environment) added[name] = value;
  Environment cleaned = inherited_;  // some remote shells hand their own environment on
  cluster::write_all_dialects(role, common().texts, cleaned);
  for (const auto& [name, value] : inherited_)
    if (!cleaned.contains(name)) planned.removed.push_back(name);
  planned.environment = inherited_;
  planned.environment[kJobVariable] = identity_.job;  // a killed launcher's guard looks for it
  planned.remote_command =
      parse_remote_shell(options_.remote.shell, options_.remote.cohort).command(host);
}

std::string Planner::host_of(const TaskId& task) const {
  const auto remote = remote_.find(task);
  return remote == remote_.end() ? identity_.host : remote->second;
}

std::filesystem::path Planner::log_of(const TaskId& task) const {
  return identity_.output / "logs" /
         fmt::format("{}-{}.attempt{}.log", to_string(task.type), task.index, attempt_);
}

PlannedTask Planner::plan(const TaskId& task, int incarnation) const {
  PlannedTask planned{.role = role_of(task, incarnation),
                      .host = host_of(task),
                      .command = options_.command,
                      .log = log_of(task)};
  if (const auto remote = remote_.find(task); remote != remote_.end())
    plan_remotely(planned, remote->second);
  else
    plan_here(planned);
  if (options_.scheduler_args) {
    auto extra = cluster::write_scheduler_args(planned.role);
    planned.command.insert(planned.command.end(), extra.begin(), extra.end());
  }
  return planned;
}

std::vector<PlannedTask> Planner::all() const {
  std::vector<PlannedTask> plan;
  for (const TaskId& task : cluster_.tasks()) {
    PlannedTask& planned = plan.emplace_back(this->plan(task));
    if (!planned.remote_command.empty()) continue;
    planned.added = difference(planned.environment, inherited_);
    for (const auto& [name, value] : inherited_)
      if (!planned.environment.contains(name)) planned.removed.push_back(name);
  }
  return plan;
}

std::vector<PlannedTask> make_plan(const JobOptions& options, const JobIdentity& identity,
                                   int attempt, PortReservation& ports,
                                   const Environment& inherited) {
  return Planner(options, identity, attempt, ports, inherited).all();
}

std::string describe(const std::vector<PlannedTask>& plan) {
  std::string text;
  for (const auto& task : plan) {
    if (!task.remote_command.empty()) {
      text += "#";
      for (const auto& word : task.remote_command) text += " " + shell_quote(word);
      text += " runs:\n";
    }
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
