#include "cohort/launch/supervise/supervisor.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/launch/control/control_answers.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job_words.h"
#include "cohort/launch/plan/job_hosts.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/supervise/elastic_job.h"
#include "cohort/launch/supervise/job_services.h"
#include "cohort/report/live_line.h"

namespace cohort::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSettleTime{500};
constexpr milliseconds kSettleLook{50};
constexpr milliseconds kLongestSettleTime{10'000};  // for a core file, a slow destructor
constexpr milliseconds kServiceGrace{
    1000};  // services get at least this, or all of a shorter grace
constexpr milliseconds kFarewell{300};
constexpr std::chrono::seconds kLeftoverTime{5};
// How long after the first task's end, and then ever more rarely, the awaited ones are named.
constexpr milliseconds kFirstReminder{2000};
constexpr milliseconds kLastReminder{60'000};

// The signals that the supervisor takes over. A SIGHUP that is ignored (nohup) stays so.
sigset_t supervised_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&set, signal);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
  return set;
}

std::optional<rlimit> file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return limit;
}

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

void ask_to_stop(TaskProcess& task) {
  task.signal(SIGTERM);
  task.signal(SIGCONT);  // a suspended task could not answer
}

}  // namespace

Supervisor::Supervisor(JobOptions options, const cluster::Environment& environment)
    : options_(std::move(options)),
      environment_(environment),
      identity_(checked_identity(options_, environment)),
      folder_(identity_.output,
              options_.resume ? OutputFolder::Earlier::kept : OutputFolder::Earlier::aside),
      control_path_(ControlSocket::new_path()),
      guard_(identity_.job, control_path_),
      screen_({.fd = STDOUT_FILENO,
               .colour = ::isatty(STDOUT_FILENO) == 1 && !environment.contains("NO_COLOR"),
               .escape = ::isatty(STDOUT_FILENO) == 1,
               .live = report::is_live_terminal(STDOUT_FILENO),
               .show = options_.show}),
      task_file_limit_(file_limit()),
      group_restarts_(options_.elastic ? options_.elastic->task_restarts : options_.max_restarts) {
  adopt_orphans();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
  ::signal(SIGCHLD, SIG_DFL);  // whoever ignores it hands that down, and the kernel reaps unseen
  // Blocked before the services start their threads, so that signals reach the descriptor alone.
  sigset_t set = supervised_signals();
  ::sigprocmask(SIG_BLOCK, &set, &old_mask_);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw SystemError("cannot listen for signals", errno);
  loop_.add(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); });

  open_control_socket();
  identity_.output = folder_.path();
  if (report::is_live_terminal(STDOUT_FILENO))
    identity_.terminal_columns = report::terminal_columns(STDOUT_FILENO);
  record_ = {.job = identity_.job,
             .command = options_.command,
             .strategy = options_.strategy,
             .success = options_.success_policy(),
             .launcher_pid = ::getpid(),
             .folder = current_folder(),
             .control = control_ ? control_path_ : "",
             .attempt = options_.resume ? read_earlier_job(folder_.path()).attempt + 1 : 1,
             .max_restarts = options_.max_restarts,
             .task_restarts = options_.task_restarts};
}

Supervisor::~Supervisor() {
  elastic_.reset();
  hosts_.reset();
  tasks_.clear();
  services_.reset();
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

void Supervisor::open_control_socket() {
  auto status = [this] {
    JobRecord record = record_;
    record.tasks = task_records();
    if (elastic_) record.elastic = elastic_->live_record();
    return to_json(record);
  };
  auto scale = [this](int workers) {
    if (options_.elastic && !elastic_)
      throw InvalidInput(fmt::format("the hosts of job {} are not known yet", identity_.job),
                         {.advice = "Try again when its workers run."});
    if (!elastic_)
      throw InvalidInput(fmt::format("job {} is not elastic: it has {} from start to end",
                                     identity_.job, describe_tasks(options_)),
                         {.advice = "Start such a job with: cohort run -n LEAST:MOST --elastic"});
    return elastic_->scale(workers);
  };
  try {
    control_.emplace(control_path_, loop_, [=](std::string_view line) {
      return answer_request(line, {status, scale});
    });
  } catch (const SystemError& error) {
    log::warning("{}; cohort status and cohort scale will not reach this job", error.what());
  }
}

int Supervisor::run() {
  started_ = std::chrono::steady_clock::now();
  record_.started = utc_timestamp();
  write_options();
  if (!can_find_leftovers())
    log::warning(
        "/proc cannot be read: processes that leave their task's process group, such as "
        "daemons, will not be found and ended with the job");
  for (bool first = true;; first = false) {
    if (!begin_attempt())
      return stop_signal_ ? conclude(JobState::stopped, 128 + stop_signal_)
                          : conclude(JobState::failed, 1);
    if (first && !options_.quiet)
      log::info("job {}: {}; output in {}", identity_.job, describe_tasks(options_),
                as_seen_from_here(identity_.output).string());
    wait_for_attempt();
    end_attempt();
    if (stop_signal_) return conclude(JobState::stopped, 128 + stop_signal_);
    if (succeeded_) return conclude(JobState::succeeded, 0);
    if (failures_.empty()) return conclude(JobState::failed, 1);
    TaskRecord cause = choose_root_cause(failures_, task_records());
    if (was_hung_up(cause)) {
      stop_signal_ = SIGHUP;
      return conclude(JobState::stopped, 128 + SIGHUP);
    }
    if (stop_requested_ || (elastic_ && !elastic_->missed()) ||
        !group_restarts_.on_failure(cause, record_.attempt)) {
      record_.root_cause = cause;
      // A cause that ended with 0, too early, is a failure all the same.
      const ExitStatus& exit = cause.exit->success() ? *failures_.front().exit : *cause.exit;
      return conclude(JobState::failed, exit.shell_code());
    }
    record_.previous_attempts.push_back(task_records());
    ++record_.attempt;
    record_.state = JobState::restarting;
    if (options_.elastic) options_.resume = true;  // from its own checkpoints
  }
}

// False: the job is over before there are hosts.
bool Supervisor::begin_attempt() {
  succeeded_ = services_stopped_ = false;
  failures_.clear();
  if (elastic_) wanted_workers_ = elastic_->wanted();
  elastic_.reset();
  tasks_.clear();
  try {
    if (!wait_for_hosts()) return false;
    start_attempt();
  } catch (...) {
    elastic_.reset();
    tasks_.clear();
    end_leftovers();
    record_.state = JobState::failed;
    record_.ended = utc_timestamp();
    write_record();
    throw;
  }
  return true;
}

void Supervisor::start_attempt() {
  phase_ = Phase::running;
  starts_to_come_ = 0;
  ports_.release_all();
  require_threads(kServiceThreads, "the job's services");
  services_ = std::make_unique<JobServices>(identity_.address, options_.horovod);
  identity_.store = services_->store();
  identity_.horovod_rendezvous = services_->horovod_rendezvous();
  planner_.emplace(options_, identity_, record_.attempt, ports_, environment_);
  std::error_code ignored;  // what the folder lacks costs log lines, not the job
  std::filesystem::create_directories(folder_.logs(), ignored);
  outcome_.emplace(planner_->tasks(), options_.success_policy());
  if (!make_tasks()) return;
  lone_restarts_.emplace(options_.task_restarts, options_.ps > 0);
  if (options_.elastic) prepare_elastic();
  write_record();  // "starting" or "restarting": whoever looks now sees which tasks are to come
  if (elastic_)
    elastic_->start();
  else
    start_tasks();
  if (phase_ == Phase::running) record_.state = JobState::running;
  write_record();
}

StartOptions Supervisor::start_options() const {
  return {.program = identity_.program,
          .secret = services_->secret_fd(),
          .file_limit = task_file_limit_,
          .grace = options_.grace};
}

void Supervisor::wait_for_attempt() {
  // Between the death of the last worker and its new start nobody of an elastic job lives.
  while (any_alive(true) || any_alive(false) ||
         (phase_ == Phase::running && (elastic_ || starts_to_come_ > 0)))
    loop_.run_once(Deadline::never());
}

void Supervisor::end_attempt() {
  hosts_.reset();  // only elastic jobs have them, and those have one attempt
  for (auto* timer : {&kill_timer_, &straggler_timer_, &record_timer_})
    loop_.cancel(std::exchange(*timer, 0));
  // Children that left their task's process group.
  if (int hit = end_leftovers(); hit > 0)
    log::info("ended {} that had left {} task's process group",
              count(hit, "leftover process", "leftover processes"), hit == 1 ? "its" : "their");
}

int Supervisor::end_leftovers() {
  return launch::end_leftovers(identity_.job, guard_.pid(), Deadline::after(kLeftoverTime));
}

void Supervisor::on_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;                            // the tasks are looked at below
    const bool nobody = !any_alive(false) && !any_alive(true);  // whom a hangup would end
    if (signal == SIGINT || signal == SIGTERM || (signal == SIGHUP && nobody)) {
      on_termination_request(signal);
    } else {
      for (auto& task : tasks_) task->signal(signal);
      if (signal == SIGHUP) hangup_forwarded_ = true;
    }
  }
  check_tasks();
}

void Supervisor::on_termination_request(int signal) {
  screen_.hurry();
  log::hurry();
  if (std::exchange(stop_requested_, true)) {
    if (signal != SIGINT) return;
    log::info("killing the tasks");
    for (auto& task : tasks_) task->signal(SIGKILL);
    return;
  }
  if (failures_.empty() && !succeeded_) stop_signal_ = signal;
  log::info("{}: stopping the job{}", signal_name(signal),
            signal == SIGINT ? "; press Ctrl-C again to kill it" : "");
  begin_stop();
}

void Supervisor::check_tasks() {
  if (elastic_) elastic_->tell_deaths();
  replace_guard();
  bool changed = false;
  for (auto& task : tasks_) {
    switch (task->check()) {
      case TaskProcess::Change::none:
        continue;
      case TaskProcess::Change::suspended:
        log::warning(
            "{} (pid {}) is suspended ({}) and makes no progress; wake it with: kill -CONT {}",
            to_string(task->id()), task->record().pid, signal_name(task->record().suspended_by),
            task->record().pid);
        break;
      case TaskProcess::Change::resumed:
        log::info("{} (pid {}) goes on", to_string(task->id()), task->record().pid);
        break;
      case TaskProcess::Change::exited:
        on_task_exit(*task);
        break;
    }
    changed = true;
  }
  std::set<pid_t> known{guard_.pid()};
  if (hosts_ && hosts_->script() > 0) known.insert(hosts_->script());
  for (const auto& task : tasks_)
    if (task->alive()) known.insert(task->record().pid);
  reap_orphans(known);
  if (!changed) return;
  if (phase_ == Phase::settling && !any_alive(false)) begin_stop();
  if (phase_ == Phase::stopping && !any_alive(false)) stop_services();
  write_record_soon();
}

void Supervisor::on_task_exit(TaskProcess& task) {
  if (phase_ == Phase::stopping) {
    task.record().stopped_by_launcher = true;
    return;
  }
  const ExitStatus& status = *task.record().exit;
  if (status.was_killed()) task.record().memory_evidence = oom_.evidence(task.record().pid);
  if (hosts_) hosts_->leave(task.id());
  if (elastic_ && was_hung_up(task.record())) {
    failures_.push_back(task.record());
    return begin_stop();
  }
  if (elastic_) return elastic_->on_exit(task);
  if (!start_again_alone(task)) judge_exit(task);
}

void Supervisor::judge_exit(TaskProcess& task) {
  const ExitStatus& status = *task.record().exit;
  // Its work was done and the others knew that: what killed it then is no failure of the job.
  const bool finished =
      status.signal != 0 && task.restart_flag() == RestartStateOwner::Flag::finished;
  if (finished)
    log::warning("{} (pid {}) {} when its work was done; the job does not need it any more",
                 to_string(task.id()), task.record().pid, how_it_ended(task.record()));
  switch (outcome_->on_exit(task.id(), finished ? ExitStatus{} : status)) {
    case Outcome::Verdict::running:
      if (!status.success() && !finished)
        log::warning("{} (pid {}) ended with {}; the job goes on without it. Its log: {}",
                     to_string(task.id()), task.record().pid, to_string(status),
                     task.record().log.string());
      else if (!is_service(task.id().type) && !straggler_timer_ && !options_.quiet)
        remind_of_stragglers(kFirstReminder);
      break;
    case Outcome::Verdict::succeeded:
      if (phase_ == Phase::settling) break;  // too late: somebody has failed
      succeeded_ = true;
      begin_stop();
      break;
    case Outcome::Verdict::failed:
    case Outcome::Verdict::preempted:
      on_failure(task);
      break;
  }
}

// It was told to stop, and did not fail.
bool Supervisor::was_hung_up(const TaskRecord& record) const {
  return hangup_forwarded_ && record.exit->signal == SIGHUP;
}

bool Supervisor::start_again_alone(TaskProcess& task) {
  const TaskRecord& record = task.record();
  // A job that is failing stops soon; a hangup means all of it.
  if (phase_ != Phase::running || was_hung_up(record)) return false;
  const std::string end =
      fmt::format("{} (pid {}) {}", to_string(task.id()), record.pid, how_it_ended(record));
  switch (lone_restarts_->on_exit(record, task.restart_flag())) {
    case LoneRestarts::Verdict::no_case:
      return false;
    case LoneRestarts::Verdict::used_up:
      log::warning("{}; it has been started again alone {} already", end,
                   count(record.restarts, "time", "times"));
      return false;
    case LoneRestarts::Verdict::crash_loop:
      log::warning(
          "{}; that is {} times in a row within {} s of its start: it is not started again", end,
          LoneRestarts::kMaxQuickDeaths,
          std::chrono::duration_cast<std::chrono::seconds>(LoneRestarts::kQuick).count());
      return false;
    case LoneRestarts::Verdict::restart:
      break;
  }
  log::warning("{}; starting it again alone (restart {})", end, record.restarts + 1);
  return start_now_or_later(task, 0);
}

void Supervisor::on_failure(const TaskProcess& task) {
  failures_.push_back(task.record());
  if (phase_ == Phase::settling) return;
  log::info("{} (pid {}) ended with {}; stopping the others", to_string(task.id()),
            task.record().pid, to_string(*task.record().exit));
  phase_ = Phase::settling;
  settle(kSettleTime, EventLoop::Clock::now() + kLongestSettleTime);
}

// Begins to stop the others after `delay`, or when whoever was lost has ended by itself: it may be
// coming down for longer than those that noticed.
void Supervisor::settle(milliseconds delay, EventLoop::Clock::time_point limit) {
  loop_.call_after(delay, [this, limit, attempt = record_.attempt] {
    if (phase_ != Phase::settling || attempt != record_.attempt) return;
    if (EventLoop::Clock::now() < limit && a_lost_peer_lives())
      settle(kSettleLook, limit);
    else
      begin_stop();
  });
}

// A task that let the others wait too long is not about to end, as far as is known.
bool Supervisor::a_lost_peer_lives() const {
  return std::any_of(failures_.begin(), failures_.end(), [this](const TaskRecord& failed) {
    const auto peer = lost_peer(failed);
    return peer && failed.last_word.loss != LastWord::Loss::late &&
           std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
             return task->id() == *peer && task->alive() && task->record().suspended_by == 0;
           });
  });
}

void Supervisor::begin_stop() {
  if (phase_ == Phase::stopping) return;
  phase_ = Phase::stopping;
  record_.state = JobState::stopping;
  if (elastic_) elastic_->stop();
  for (auto& task : tasks_) {
    if (!is_service(task->id().type)) ask_to_stop(*task);
  }
  kill_time_ = EventLoop::Clock::now() + options_.grace;
  kill_timer_ = loop_.call_at(kill_time_, [this] { kill_the_rest(); });
  if (!any_alive(false)) stop_services();
}

void Supervisor::stop_services() {
  if (services_stopped_) return;
  services_stopped_ = true;
  // A server that knows the job's end leaves by itself when the workers have left.
  auto farewell = succeeded_ ? kFarewell : milliseconds(0);
  auto grace = std::min<milliseconds>(options_.grace, kServiceGrace);
  kill_time_ = std::max(kill_time_, EventLoop::Clock::now() + farewell + grace);
  loop_.cancel(kill_timer_);
  kill_timer_ = loop_.call_after(farewell, [this] {
    kill_timer_ = loop_.call_at(kill_time_, [this] { kill_the_rest(); });
    for (auto& task : tasks_) ask_to_stop(*task);
  });
}

void Supervisor::kill_the_rest() {
  for (auto& task : tasks_) {
    if (!task->alive()) continue;
    // Services are asked to stop only when the others have gone; their turn comes then.
    if (is_service(task->id().type) && !services_stopped_) continue;
    log::info("{} (pid {}) did not end within the grace period of {:.1f} s: killing it",
              to_string(task->id()), task->record().pid,
              static_cast<double>(options_.grace.count()) / 1000.0);
    task->signal(SIGKILL);
  }
}

bool Supervisor::any_alive(bool services) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
    return task->alive() && is_service(task->id().type) == services;
  });
}

void Supervisor::remind_of_stragglers(milliseconds delay) {
  straggler_timer_ = loop_.call_after(delay, [this, delay] {
    std::vector<std::string> ended, waiting;
    for (const auto& task : tasks_)
      if (!task->alive() && !is_service(task->id().type)) ended.push_back(to_string(task->id()));
    for (const auto& id : outcome_->awaited()) waiting.push_back(to_string(id));
    if (phase_ != Phase::running || waiting.empty()) return;
    log::info("{} ended with 0; waiting for {} (Ctrl-C stops the job)", join(ended, ", "),
              join(waiting, ", "));
    remind_of_stragglers(std::min<milliseconds>(2 * delay, kLastReminder));
  });
}

}  // namespace cohort::launch
