#include "cohort/launch/supervise/job_tasks.h"

#include <unistd.h>

#include <algorithm>

#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/report/live_line.h"

namespace cohort::launch {
namespace {

std::optional<rlimit> current_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return limit;
}

ScreenOptions screen_options(const JobOptions& options, const cluster::Environment& environment) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  return {.fd = STDOUT_FILENO,
          .colour = is_terminal && !environment.contains("NO_COLOR"),
          .escape = is_terminal,
          .live = report::is_live_terminal(STDOUT_FILENO),
          .show = options.show};
}

bool is_among(const TaskProcess& task, JobTasks::Which which) {
  return which == JobTasks::Which::all || !is_service(task.id().type);
}

}  // namespace

JobTasks::JobTasks(const JobOptions& options, JobIdentity& identity,
                   const cluster::Environment& environment, EventLoop& loop, Guard& guard,
                   JobMachine& machine)
    : options_(options),
      identity_(identity),
      environment_(environment),
      loop_(loop),
      guard_(guard),
      machine_(machine),
      screen_(screen_options(options, environment)),
      file_limit_(current_file_limit()) {}

void JobTasks::lay_out(int attempt) {
  attempt_ = attempt;
  ports_.release_all();
  require_threads(kServiceThreads, "the job's services");
  services_ = std::make_unique<JobServices>(identity_.address, options_.horovod);
  identity_.store = services_->store();
  identity_.horovod_rendezvous = services_->horovod_rendezvous();
  planner_.emplace(options_, identity_, attempt, ports_, environment_);
}

void JobTasks::make(const cluster::TaskId& task) {
  const std::string host = planner_->host_of(task);
  tasks_.push_back(std::make_unique<TaskProcess>(
      TaskProcess::Identity{.id = task,
                            .host = host,
                            .attempt = attempt_,
                            .log = planner_->log_of(task),
                            .keeps_state = options_.task_restarts > 0 && host == identity_.host},
      loop_, screen_, guard_));
}

void JobTasks::clear() { tasks_.clear(); }

void JobTasks::place(const TaskProcess& task, const std::string& host) {
  planner_->place(task.id(), host);
}

void JobTasks::start(TaskProcess& task) {
  const int incarnation = task.record().exit ? task.record().restarts + 1 : 0;
  task.start(planner_->plan(task.id(), incarnation), {.program = identity_.program,
                                                      .secret = services_->secret_fd(),
                                                      .file_limit = file_limit_,
                                                      .grace = options_.grace,
                                                      .window = &window_});
  machine_.on_started(task.id());
}

TaskProcess& JobTasks::find(const cluster::TaskId& id) const {
  return **std::find_if(tasks_.begin(), tasks_.end(),
                        [&](const auto& task) { return task->id() == id; });
}

std::vector<TaskRecord> JobTasks::records() const {
  std::vector<TaskRecord> records;
  for (const auto& task : tasks_) records.push_back(task->record());
  return records;
}

std::set<pid_t> JobTasks::pids() const {
  std::set<pid_t> pids;
  for (const auto& task : tasks_)
    if (task->alive()) pids.insert(task->record().pid);
  return pids;
}

bool JobTasks::check(const std::function<void(TaskProcess&)>& on_exit) {
  bool changed = false;
  for (auto& task : tasks_) {
    const auto change = task->check();
    if (change == TaskProcess::Change::none) continue;
    changed = true;
    const std::string name = to_string(task->id());
    const pid_t pid = task->record().pid;
    if (change == TaskProcess::Change::exited) {
      machine_.on_ended(task->id());
      on_exit(*task);
    } else if (change == TaskProcess::Change::suspended) {
      machine_.on_suspended(task->id(), true);
      log::warning(
          "{} (pid {}) is suspended ({}) and makes no progress; wake it with: kill -CONT {}", name,
          pid, signal_name(task->record().suspended_by), pid);
    } else {
      machine_.on_suspended(task->id(), false);
      log::info("{} (pid {}) goes on", name, pid);
    }
  }
  return changed;
}

void JobTasks::signal(int number) {
  for (auto& task : tasks_) task->signal(number);
}

void JobTasks::ask_to_stop(Which which) {
  for (auto& task : tasks_)
    if (is_among(*task, which)) task->ask_to_stop();
}

void JobTasks::kill_late(Which which) {
  for (auto& task : tasks_) {
    if (!task->alive() || !is_among(*task, which)) continue;
    log::info("{} (pid {}) did not end within the grace period of {:.1f} s: killing it",
              to_string(task->id()), task->record().pid,
              static_cast<double>(options_.grace.count()) / 1000.0);
    task->signal(SIGKILL);
  }
}

}  // namespace cohort::launch
