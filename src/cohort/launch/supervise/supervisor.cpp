#include "cohort/launch/supervise/supervisor.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/control/control_answers.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/record/old_runs.h"
#include "cohort/launch/supervise/elastic_job.h"
#include "cohort/launch/supervise/fixed_job.h"
#include "cohort/report/live_line.h"

namespace cohort::launch {
namespace {

constexpr std::chrono::seconds kLeftoverTime{5};
constexpr std::chrono::milliseconds kLookAround{20};

// Refuses what this machine cannot do before anything is made or started.
JobIdentity checked_identity(const JobOptions& options, const cluster::Environment& environment) {
  require_loopback();
  JobIdentity identity = new_identity(options, environment);
  if (options.gpus_per_worker)
    gpus_of_worker(visible_gpus(environment), *options.gpus_per_worker, options.workers, 0);
  return identity;
}

std::filesystem::path current_folder() {
  std::error_code gone;  // it may have been deleted
  return std::filesystem::current_path(gone);
}

JobMachine::Options machine_options(const JobOptions& options, const OutputFolder& folder) {
  return {.grace = options.grace,
          .max_restarts = options.elastic ? options.elastic->task_restarts : options.max_restarts,
          .attempt = options.resume ? read_earlier_job(folder.path()).attempt + 1 : 1,
          .max_run = options.max_run};
}

std::unique_ptr<JobPolicy> make_policy(JobContext context) {
  if (context.options.elastic) return std::make_unique<ElasticJob>(std::move(context));
  return std::make_unique<FixedJob>(std::move(context));
}

JobState state_after(const JobMachine::Ending& ending) {
  switch (ending.kind) {
    case JobMachine::Ending::Kind::succeeded:
      return JobState::succeeded;
    case JobMachine::Ending::Kind::failed:
      return JobState::failed;
    case JobMachine::Ending::Kind::stopped:
      return JobState::stopped;
    case JobMachine::Ending::Kind::restart:
      break;
  }
  return JobState::restarting;
}

}  // namespace

Supervisor::Supervisor(JobOptions options, const cluster::Environment& environment,
                       std::string words)
    : options_(std::move(options)),
      words_(std::move(words)),
      environment_(environment),
      identity_(checked_identity(options_, environment)),
      folder_(identity_.output,
              options_.resume ? OutputFolder::Earlier::kept : OutputFolder::Earlier::aside),
      control_path_(ControlSocket::new_path()),
      guard_(identity_.job, control_path_),
      signals_(
          loop_, [this](int signal) { on_signal(signal); }, [this] { check_tasks(); }),
      writer_(folder_.record(), loop_, [this] { return describe(/*live=*/false); }),
      machine_(machine_options(options_, folder_)),
      tasks_(options_, identity_, environment_, loop_, guard_, machine_) {
  adopt_orphans();
  identity_.output = folder_.path();
  policy_ = make_policy(context());
  open_control_socket();
  if (report::is_live_terminal(STDOUT_FILENO))
    identity_.terminal_columns = report::terminal_columns(STDOUT_FILENO);
  record_ = {.job = identity_.job,
             .command = options_.command,
             .strategy = options_.strategy,
             .success = options_.success_policy(),
             .launcher_pid = ::getpid(),
             .folder = current_folder(),
             .control = control_ ? control_path_ : "",
             .attempt = machine_.attempt(),
             .max_restarts = options_.max_restarts,
             .task_restarts = options_.task_restarts};
}

Supervisor::~Supervisor() = default;

JobContext Supervisor::context() {
  return {.options = options_,
          .identity = identity_,
          .environment = environment_,
          .folder = folder_.path(),
          .loop = loop_,
          .tasks = tasks_,
          .machine = machine_,
          .changed =
              [this] {
                carry_out();
                writer_.write();
              },
          .look_around = [this] { return look_around(); }};
}

void Supervisor::open_control_socket() {
  const ControlActions actions{.status = [this] { return describe(/*live=*/true); },
                               .scale = [this](int workers) { return policy_->scale(workers); }};
  try {
    control_.emplace(control_path_, loop_,
                     [actions](std::string_view line) { return answer_request(line, actions); });
  } catch (const SystemError& error) {
    log::warning("{}; cohort status and cohort scale will not reach this job", error.what());
  }
}

int Supervisor::run() {
  started_ = EventLoop::Clock::now();
  record_.started = utc_timestamp();
  carry_out();          // sets the timer of max_run
  if (!words_.empty())  // --env may hold secrets
    writer_.write_other(folder_.path() / OutputFolder::kOptions, words_, 0600);
  if (!can_find_leftovers())
    log::warning(
        "/proc cannot be read: processes that leave their task's process group, such as "
        "daemons, will not be found and ended with the job");
  for (bool first = true;; first = false) {
    if (!begin_attempt()) return conclude(machine_.end_attempt({}, /*may_restart=*/false));
    if (first && !options_.quiet)
      log::info("job {}: {}; output in {}", identity_.job, describe_tasks(options_),
                as_seen_from_here(identity_.output).string());
    // Between the death of the last task and its new start none lives.
    while (machine_.any_alive() ||
           (machine_.phase() == JobMachine::Phase::running && policy_->is_start_due()))
      loop_.run_once(Deadline::never());
    end_attempt();
    const auto ending = machine_.end_attempt(tasks_.records(), policy_->may_restart());
    if (ending.kind != JobMachine::Ending::Kind::restart) return conclude(ending);
    record_.previous_attempts.push_back(tasks_.records());
    record_.attempt = machine_.attempt();
    record_.state = JobState::restarting;
  }
}

// False: the job is over before there are hosts.
bool Supervisor::begin_attempt() {
  policy_->drop_attempt();
  tasks_.clear();
  try {
    if (!policy_->prepare()) return false;
    start_attempt();
  } catch (...) {
    policy_->drop_attempt();
    tasks_.clear();
    end_leftovers();
    record_.state = JobState::failed;
    record_.ended = utc_timestamp();
    writer_.write();
    throw;
  }
  return true;
}

void Supervisor::start_attempt() {
  tasks_.lay_out(machine_.attempt());
  std::error_code ignored;  // what the folder lacks costs log lines, not the job
  std::filesystem::create_directories(folder_.logs(), ignored);
  for (const cluster::TaskId& task : tasks_.planned()) {
    tasks_.make(task);
    if (!look_around()) return;
  }
  policy_->begin_attempt();
  writer_.write();  // "starting" or "restarting": a reader sees which tasks are to come
  policy_->start();
  if (machine_.phase() == JobMachine::Phase::running) record_.state = JobState::running;
  carry_out();
  writer_.write();
}

void Supervisor::end_attempt() {
  policy_->end_attempt();
  loop_.cancel(std::exchange(machine_timer_, 0));
  // Children that left their task's process group.
  if (int hit = end_leftovers(); hit > 0)
    log::info("ended {} that had left {} task's process group",
              count(hit, "leftover process", "leftover processes"), hit == 1 ? "its" : "their");
}

int Supervisor::end_leftovers() {
  return launch::end_leftovers(identity_.job, guard_.pid(), Deadline::after(kLeftoverTime));
}

// A job of a thousand tasks takes seconds to start, and may be stopped at any time. What the first
// ones write waits: a reader who does not read must not keep the others from starting.
bool Supervisor::look_around() {
  if (const auto now = EventLoop::Clock::now(); now - looked_around_ >= kLookAround) {
    signals_.take();
    looked_around_ = EventLoop::Clock::now();
  }
  return machine_.phase() == JobMachine::Phase::running;
}

void Supervisor::on_signal(int signal) {
  if (signal == SIGCHLD) return;  // the tasks are looked at afterwards
  if (signal == SIGINT || signal == SIGTERM || (signal == SIGHUP && !machine_.any_alive())) {
    tasks_.drop_if_blocked();
    log::drop_if_blocked();
    machine_.on_stop_signal(signal, EventLoop::Clock::now());
    carry_out();
  } else {
    tasks_.signal(signal);
    if (signal == SIGHUP) machine_.on_hangup_forwarded();
  }
}

void Supervisor::check_tasks() {
  policy_->before_check();
  guard_.replace_if_dead();
  const bool changed = tasks_.check([this](TaskProcess& task) { on_task_exit(task); });
  std::set<pid_t> known = tasks_.pids();
  known.insert(guard_.pid());
  known.merge(policy_->processes());
  reap_orphans(known);
  if (!changed) return;
  machine_.after_ends(EventLoop::Clock::now());
  carry_out();
  writer_.write_soon();
}

void Supervisor::on_task_exit(TaskProcess& task) {
  TaskRecord& record = task.record();
  if (machine_.phase() == JobMachine::Phase::stopping) {
    record.stopped_by_launcher = true;
    return;
  }
  if (record.exit->was_killed()) record.memory_evidence = tasks_.memory_evidence(record);
  policy_->on_exit(task);
  carry_out();
}

void Supervisor::carry_out() {
  for (const auto action : machine_.take_actions()) carry_out(action);
  loop_.cancel(std::exchange(machine_timer_, 0));
  if (const auto due = machine_.wake_at())
    machine_timer_ = loop_.call_at(*due, [this] {
      machine_timer_ = 0;
      machine_.on_time(EventLoop::Clock::now());
      carry_out();
    });
}

void Supervisor::carry_out(JobMachine::Action action) {
  using Which = JobTasks::Which;
  switch (action) {
    case JobMachine::Action::start_nothing:
      record_.state = JobState::stopping;
      return policy_->stop();
    case JobMachine::Action::ask_training_to_stop:
      return tasks_.ask_to_stop(Which::training);
    case JobMachine::Action::ask_all_to_stop:
      return tasks_.ask_to_stop(Which::all);
    case JobMachine::Action::kill_late_training:
      return tasks_.kill_late(Which::training);
    case JobMachine::Action::kill_late:
      return tasks_.kill_late(Which::all);
    case JobMachine::Action::kill_all:
      return tasks_.signal(SIGKILL);
  }
}

std::string Supervisor::describe(bool live) {
  record_.tasks = tasks_.records();
  policy_->describe(record_, /*live=*/false);
  if (!machine_.failure().empty()) record_.failure = machine_.failure();
  if (!live) return to_json(record_);
  JobRecord record = record_;
  policy_->describe(record, /*live=*/true);
  return to_json(record);
}

int Supervisor::conclude(const JobMachine::Ending& ending) {
  record_.state = state_after(ending);
  record_.root_cause = ending.cause;
  record_.exit_code = ending.exit_code;
  record_.ended = utc_timestamp();
  writer_.write();
  clean_up_old_runs();
  const double duration = std::chrono::duration<double>(EventLoop::Clock::now() - started_).count();
  switch (record_.state) {
    case JobState::succeeded:
      if (!options_.quiet) log::info("job {} succeeded in {:.1f} s", identity_.job, duration);
      break;
    case JobState::stopped:
      log::info("job {} was stopped by {} after {:.1f} s; logs in {}", identity_.job,
                signal_name(ending.signal), duration, folder_.logs().string());
      break;
    default:
      log::error("job {} failed after {:.1f} s{}", identity_.job, duration,
                 record_.failure.empty() ? "" : ": " + record_.failure);
      if (ending.cause) log::write_report(root_cause_report(*ending.cause, tasks_.records()));
  }
  return ending.exit_code;
}

// Of the folder that jobs without --output share; one that a person named is that person's.
void Supervisor::clean_up_old_runs() const {
  if (!options_.output.empty()) return;
  const auto removed = remove_old_runs(folder_.path().parent_path(), options_.keep);
  if (removed.empty() || options_.quiet) return;
  log::info("removed {} of more than {} days ago from {} ({}); see cohort run --keep",
            count(static_cast<int>(removed.size()), "run", "runs"),
            std::chrono::duration_cast<std::chrono::hours>(kKeptTime).count() / 24,
            as_seen_from_here(folder_.path().parent_path()).string(),
            removed.size() == 1 ? removed.front() : removed.front() + " to " + removed.back());
}

}  // namespace cohort::launch
