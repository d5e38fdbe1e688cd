#include "cohort/launch/supervise/job_machine.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "cohort/base/log/log.h"
#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/job/job.h"

namespace cohort::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSettleTime{500};
constexpr milliseconds kSettleLook{50};
constexpr milliseconds kLongestSettleTime{10'000};  // for a core file, a slow destructor
constexpr milliseconds kServiceGrace{1000};         // or all of a shorter grace period
// A server that knows of the job's success leaves by itself when the workers have left.
constexpr milliseconds kServiceLeaveTime{300};
constexpr int kTimeOverCode = 124;  // as of timeout(1)

}  // namespace

JobMachine::JobMachine(Options options, Time now)
    : grace_(options.grace),
      restart_policy_(RestartPolicy::for_job(options.max_restarts)),
      attempt_(options.attempt),
      max_run_(options.max_run) {
  if (max_run_.count() > 0) ends_at_ = now + max_run_;
}

int& JobMachine::alive(const cluster::TaskId& task) {
  return alive_[is_service(task.type) ? 1 : 0];
}

void JobMachine::on_started(const cluster::TaskId& task) {
  Task& known = tasks_[task];
  if (!known.alive) ++alive(task);
  known = {.alive = true};
}

void JobMachine::on_suspended(const cluster::TaskId& task, bool suspended) {
  tasks_[task].suspended = suspended;
}

void JobMachine::on_ended(const cluster::TaskId& task) {
  if (std::exchange(tasks_[task].alive, false)) --alive(task);
}

void JobMachine::after_ends(Time now) {
  if (alive_training() > 0) return;
  if (phase_ == Phase::settling) begin_stop(now);
  if (phase_ == Phase::stopping) stop_services(now);
}

void JobMachine::succeed(Time now) {
  if (phase_ == Phase::settling) return;
  succeeded_ = true;
  begin_stop(now);
}

void JobMachine::fail(const TaskRecord& task, Time now) {
  failures_.push_back(task);
  if (phase_ != Phase::running) return;
  log::info("{} (pid {}) ended with {}; stopping the others", to_string(task.id), task.pid,
            to_string(*task.exit));
  phase_ = Phase::settling;
  settle_at_ = now + kSettleTime;
  settle_limit_ = now + kLongestSettleTime;
}

void JobMachine::fail_at_once(std::vector<TaskRecord> tasks, Time now) {
  failures_ = std::move(tasks);
  begin_stop(now);
}

void JobMachine::on_stop_signal(int signal, Time now) {
  if (std::exchange(stop_requested_, true)) {
    if (signal != SIGINT) return;
    log::info("killing the tasks");
    actions_.push_back(Action::kill_all);
    return;
  }
  if (failures_.empty() && !succeeded_) stop_signal_ = signal;
  log::info("{}: stopping the job{}", signal_name(signal),
            signal == SIGINT ? "; press Ctrl-C again to kill it" : "");
  begin_stop(now);
}

void JobMachine::end_time(Time now) {
  ends_at_.reset();
  if (succeeded_ || !failures_.empty() || std::exchange(stop_requested_, true)) return;
  failure_ =
      fmt::format("max_run of {:g} s is over", std::chrono::duration<double>(max_run_).count());
  log::info("{}: stopping the job", failure_);
  begin_stop(now);
}

void JobMachine::on_time(Time now) {
  if (ends_at_ && now >= *ends_at_) end_time(now);
  if (settle_at_ && now >= *settle_at_) {
    if (now < *settle_limit_ && a_lost_peer_lives())
      settle_at_ = now + kSettleLook;
    else
      begin_stop(now);
  }
  if (ask_services_at_ && now >= *ask_services_at_) {
    ask_services_at_.reset();
    actions_.push_back(Action::ask_all_to_stop);
  }
  if (kill_at_ && !ask_services_at_ && now >= *kill_at_) {
    kill_at_.reset();
    // Services are asked to stop only when the others have ended; their turn comes then.
    actions_.push_back(services_stopped_ ? Action::kill_late : Action::kill_late_training);
  }
}

std::optional<JobMachine::Time> JobMachine::wake_at() const {
  std::optional<Time> due = ends_at_;
  for (const auto& other : {settle_at_, ask_services_at_ ? ask_services_at_ : kill_at_})
    if (other && (!due || *other < *due)) due = other;
  return due;
}

std::vector<JobMachine::Action> JobMachine::take_actions() { return std::exchange(actions_, {}); }

void JobMachine::begin_stop(Time now) {
  if (phase_ == Phase::stopping) return;
  phase_ = Phase::stopping;
  settle_at_.reset();
  kill_at_ = now + grace_;
  actions_.push_back(Action::start_nothing);
  actions_.push_back(Action::ask_training_to_stop);
  if (alive_training() == 0) stop_services(now);
}

void JobMachine::stop_services(Time now) {
  if (std::exchange(services_stopped_, true)) return;
  const auto ask_at = now + (succeeded_ ? kServiceLeaveTime : milliseconds(0));
  ask_services_at_ = ask_at;
  kill_at_ = std::max(kill_at_.value_or(now), ask_at + std::min(grace_, kServiceGrace));
}

// A task that let the others wait too long is not about to end, as far as is known.
bool JobMachine::a_lost_peer_lives() const {
  return std::any_of(failures_.begin(), failures_.end(), [this](const TaskRecord& failed) {
    const auto peer = lost_peer(failed);
    if (!peer || failed.last_word.loss == LastWord::Loss::late) return false;
    const auto found = tasks_.find(*peer);
    return found != tasks_.end() && found->second.alive && !found->second.suspended;
  });
}

bool JobMachine::was_hung_up(const TaskRecord& task) const {
  return hangup_forwarded_ && task.exit->signal == SIGHUP;
}

JobMachine::Ending JobMachine::stopped_by(int signal) const {
  return {.kind = Ending::Kind::stopped, .exit_code = 128 + signal, .signal = signal};
}

JobMachine::Ending JobMachine::end_attempt(const std::vector<TaskRecord>& tasks, bool may_restart) {
  if (stop_signal_ != 0) return stopped_by(stop_signal_);
  if (!failure_.empty()) return {.exit_code = kTimeOverCode};
  if (succeeded_) return {.kind = Ending::Kind::succeeded, .exit_code = 0};
  if (failures_.empty()) return {};
  TaskRecord cause = choose_root_cause(failures_, tasks);
  if (was_hung_up(cause)) return stopped_by(SIGHUP);
  if (stop_requested_ || !may_restart || !restarts(cause)) {
    // A cause that ended with 0, too early, is a failure all the same.
    const ExitStatus& exit = cause.exit->success() ? *failures_.front().exit : *cause.exit;
    return {.exit_code = exit.shell_code(), .cause = std::move(cause)};
  }
  ++attempt_;
  phase_ = Phase::running;
  tasks_.clear();
  alive_[0] = alive_[1] = 0;
  failures_.clear();
  ask_services_at_.reset();
  kill_at_.reset();
  services_stopped_ = false;
  return {.kind = Ending::Kind::restart};
}

bool JobMachine::restarts(const TaskRecord& cause) {
  const auto decision = restart_policy_.on_job_end(cause);
  if (decision.is_free) {
    log::info("{} was preempted ({}); starting attempt {}, which is not counted as a restart",
              to_string(cause.id), to_string(*cause.exit), attempt_ + 1);
    return true;
  }
  if (is_preemption(*cause.exit))
    log::warning("{} ended as if preempted {} times in a row, each within {} s: that is a failure",
                 to_string(cause.id), decision.quick_deaths,
                 restart_policy_.rules().quick.count() / 1000);
  if (decision.answer != RestartPolicy::Answer::restart) return false;
  log::info("{}", summary_line(cause));
  log::info("starting attempt {} (restart {} of {})", attempt_ + 1, decision.counted,
            restart_policy_.rules().limit);
  return true;
}

}  // namespace cohort::launch
