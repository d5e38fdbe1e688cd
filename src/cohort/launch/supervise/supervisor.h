#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/launch/control/control_socket.h"
#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/process/memory_pressure.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/launch/supervise/group_restarts.h"
#include "cohort/launch/supervise/lone_restarts.h"
#include "cohort/launch/task/task_process.h"

namespace cohort::launch {

class ElasticJob;
class JobHosts;
class JobServices;

// Runs one job on this machine from start to end: starts the tasks, relays their output, watches
// them, starts a killed one again alone where it asked for that, decides when the job is over,
// stops what is left, restarts the group where that was asked for, and says why it failed.
//
// An attempt goes through: running -> [settling ->] stopping -> ended. `settling` is a short wait
// after the first failure, so that the failure that caused the others is found among those that
// arrive together; longer when those say that they lost a task which is still on its way out.
// Stopping: TERM to the tasks that train, then to the services, KILL when the grace period is over.
//
// Confined to the main thread of the process (tasks die with the thread that started them). Takes
// over the signals INT, TERM, HUP, USR1, USR2 and CHLD for as long as it lives.
class Supervisor {
 public:
  // `options` are settled. Throws InvalidInput before anything has been started.
  Supervisor(JobOptions options, const cluster::Environment& environment);
  ~Supervisor();

  // Returns the exit code for the launcher: 0, the first failing task's (128 + signal), or
  // 128 + signal when the launcher was told to stop.
  int run();

 private:
  enum class Phase { running, settling, stopping };

  void open_control_socket();
  bool wait_for_hosts();
  bool begin_attempt();
  void start_attempt();
  bool make_tasks();
  void start_tasks();
  bool look_around();
  void prepare_elastic();
  bool start_elastic(TaskProcess& task);
  StartOptions start_options() const;
  void wait_for_attempt();
  void end_attempt();
  int end_leftovers();

  void on_signals();
  void replace_guard();
  void on_termination_request(int signal);
  void check_tasks();
  void on_task_exit(TaskProcess& task);
  bool was_hung_up(const TaskRecord& record) const;
  void judge_exit(TaskProcess& task);
  bool start_again_alone(TaskProcess& task);
  bool start_now_or_later(TaskProcess& task, int tries);
  void on_failure(const TaskProcess& task);
  void settle(std::chrono::milliseconds delay, EventLoop::Clock::time_point limit);
  bool a_lost_peer_lives() const;
  void begin_stop();
  void stop_services();
  void kill_the_rest();

  bool any_alive(bool services) const;
  void remind_of_stragglers(std::chrono::milliseconds delay);
  int conclude(JobState state, int exit_code);
  void clean_up_old_runs() const;
  void write_options();
  void write_record();
  void write_record_soon();
  void write(const std::filesystem::path& path, const std::string& text, mode_t mode = 0644);
  std::vector<TaskRecord> task_records() const;

  JobOptions options_;
  cluster::Environment environment_;
  JobIdentity identity_;
  OutputFolder folder_;
  std::filesystem::path control_path_;
  Guard guard_;
  bool guard_lost_ = false;
  EventLoop loop_;
  sigset_t old_mask_;
  UniqueFd signals_;
  std::optional<ControlSocket> control_;
  std::unique_ptr<JobServices> services_;
  Screen screen_;
  OomWatch oom_;
  PortReservation ports_;
  std::optional<rlimit> task_file_limit_;
  GroupRestarts group_restarts_;

  JobRecord record_;
  bool record_failed_ = false;               // a warning about the folder has been given
  EventLoop::Clock::time_point record_due_;  // when it may be written again
  EventLoop::TimerId record_timer_ = 0;
  EventLoop::Clock::time_point looked_around_;

  std::unique_ptr<JobHosts> hosts_;  // of an elastic job that names some

  // The attempt that runs now.
  std::optional<Planner> planner_;
  std::vector<std::unique_ptr<TaskProcess>> tasks_;
  std::optional<Outcome> outcome_;
  std::optional<LoneRestarts> lone_restarts_;
  int starts_to_come_ = 0;  // of tasks that the system had no descriptor or process for
  std::unique_ptr<ElasticJob> elastic_;
  std::optional<int> wanted_workers_;  // what the attempt before was scaled to
  Phase phase_ = Phase::running;
  bool succeeded_ = false;
  bool services_stopped_ = false;
  std::vector<TaskRecord> failures_;  // in order, until somebody was asked to stop
  EventLoop::Clock::time_point kill_time_;
  EventLoop::TimerId kill_timer_ = 0;
  EventLoop::TimerId straggler_timer_ = 0;

  bool stop_requested_ = false;  // by INT or TERM
  bool hangup_forwarded_ = false;
  int stop_signal_ = 0;  // the signal that ended the job; 0 when it ended otherwise
  std::chrono::steady_clock::time_point started_;
};

}  // namespace cohort::launch
