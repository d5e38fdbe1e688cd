#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "cohort/launch/ending/task_record.h"
#include "cohort/launch/supervise/restart_policy.h"

namespace cohort::launch {

// The course of a job, attempt by attempt, as a state machine. Events and times go in, actions come
// out; it knows no processes, no sockets and no clock, and does nothing but write log lines.
//
// An attempt goes through: running -> [settling ->] stopping. `settling` is a short wait after the
// first failure, so that the failure that caused the others is found among those that arrive
// together; longer when those say that they lost a task which is still on its way out. Stopping:
// the tasks that train are asked to stop, then the services (parameter servers, evaluators); what
// is left when the grace period is over is killed.
//
// Which tasks run and which end means what is the JobPolicy's part. Confined to one thread.
class JobMachine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase { running, settling, stopping };
  enum class Action {
    start_nothing,  // the attempt ends: no task is started any more
    ask_training_to_stop,
    ask_all_to_stop,
    kill_late_training,  // those that train and have not ended within the grace period
    kill_late,           // all that have not
    kill_all             // a person does not want to wait
  };
  struct Options {
    std::chrono::milliseconds grace{5000};
    int max_restarts = 0;                  // of the whole job
    int attempt = 1;                       // the first one's number
    std::chrono::milliseconds max_run{0};  // of all attempts together; 0: no limit
  };

  explicit JobMachine(Options options, Time now = std::chrono::steady_clock::now());

  // Events. Take the actions and look at wake_at() after each of them.

  void on_started(const cluster::TaskId& task);
  void on_suspended(const cluster::TaskId& task, bool suspended);
  void on_ended(const cluster::TaskId& task);
  // All ends that are known have been told, and judged by fail(), fail_at_once() or succeed().
  void after_ends(Time now);

  void succeed(Time now);                       // unless a task has failed before
  void fail(const TaskRecord& task, Time now);  // after a while, in which others may follow
  void fail_at_once(std::vector<TaskRecord> tasks, Time now);
  // SIGINT, SIGTERM, or a SIGHUP that no task is there to get. A second SIGINT kills.
  void on_stop_signal(int signal, Time now);
  void on_hangup_forwarded() { hangup_forwarded_ = true; }
  void on_time(Time now);  // call at wake_at(), or at any time

  std::vector<Action> take_actions();
  std::optional<Time> wake_at() const;

  Phase phase() const { return phase_; }
  int attempt() const { return attempt_; }
  bool any_alive() const { return alive_[0] + alive_[1] > 0; }
  bool is_stop_requested() const { return stop_requested_; }
  const std::string& failure() const { return failure_; }  // "": tasks alone say why it failed
  bool was_hung_up(const TaskRecord& task) const;          // it was told to stop, and did not fail

  // What comes after an attempt whose tasks have all ended.
  struct Ending {
    enum class Kind { succeeded, failed, stopped, restart };
    Kind kind = Kind::failed;
    int exit_code = 1;                // of the launcher
    std::optional<TaskRecord> cause;  // of a failure
    int signal = 0;                   // that stopped it
  };
  // `tasks` are all of the attempt; `may_restart`: the policy has nothing against another attempt.
  // With `restart`, the next attempt has begun.
  Ending end_attempt(const std::vector<TaskRecord>& tasks, bool may_restart);

 private:
  struct Task {
    bool alive = false;
    bool suspended = false;
  };

  void end_time(Time now);
  void begin_stop(Time now);
  void stop_services(Time now);
  bool a_lost_peer_lives() const;
  bool restarts(const TaskRecord& cause);
  Ending stopped_by(int signal) const;
  int& alive(const cluster::TaskId& task);
  int alive_training() const { return alive_[0]; }

  std::chrono::milliseconds grace_;
  RestartPolicy restart_policy_;
  int attempt_;
  std::chrono::milliseconds max_run_;
  std::optional<Time> ends_at_;
  std::string failure_;
  std::vector<Action> actions_;
  bool stop_requested_ = false;
  bool hangup_forwarded_ = false;
  int stop_signal_ = 0;  // that ended the job; 0: it ended otherwise

  // The attempt that runs now.
  Phase phase_ = Phase::running;
  std::map<cluster::TaskId, Task> tasks_;
  int alive_[2] = {0, 0};  // tasks that train, services
  bool succeeded_ = false;
  std::vector<TaskRecord> failures_;  // in order, until the tasks were asked to stop
  std::optional<Time> settle_at_, settle_limit_;
  std::optional<Time> ask_services_at_;
  std::optional<Time> kill_at_;
  bool services_stopped_ = false;
};

}  // namespace cohort::launch
