#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cohort/base/net/event_loop.h"
#include "cohort/launch/control/control_socket.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/process/guard.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/launch/record/record_writer.h"
#include "cohort/launch/supervise/job_machine.h"
#include "cohort/launch/supervise/job_policy.h"
#include "cohort/launch/supervise/job_tasks.h"
#include "cohort/launch/supervise/launcher_signals.h"

namespace cohort::launch {

// Runs one job on this machine from start to end: brings what happens to its tasks, signals and
// questions to the JobMachine and the JobPolicy, does what they decide, and says how the job ended.
//
// Confined to the main thread of the process (tasks die with the thread that started them). Takes
// over signals for as long as it lives (launcher_signals.h).
class Supervisor {
 public:
  // `options` are settled; OUTPUT/job-options.json is to hold `words`, with which they were asked
  // for ("": there is no such file). Throws InvalidInput before anything has been started.
  Supervisor(JobOptions options, const cluster::Environment& environment, std::string words);
  ~Supervisor();

  const std::filesystem::path& output() const { return folder_.path(); }

  // Returns the exit code for the launcher: 0, the first failing task's (128 + signal), or
  // 128 + signal when the launcher was told to stop.
  int run();

 private:
  JobContext context();
  void open_control_socket();
  bool begin_attempt();
  void start_attempt();
  void end_attempt();
  int end_leftovers();

  void on_signal(int signal);
  void check_tasks();
  void on_task_exit(TaskProcess& task);
  void carry_out();
  void carry_out(JobMachine::Action action);
  bool look_around();

  std::string describe(bool live);
  int conclude(const JobMachine::Ending& ending);
  void clean_up_old_runs() const;

  JobOptions options_;
  const std::string words_;
  cluster::Environment environment_;
  JobIdentity identity_;
  OutputFolder folder_;
  std::filesystem::path control_path_;
  Guard guard_;
  EventLoop loop_;
  LauncherSignals signals_;
  JobRecord record_;
  RecordWriter writer_;
  JobMachine machine_;
  EventLoop::TimerId machine_timer_ = 0;  // at machine_.wake_at()
  JobTasks tasks_;
  std::unique_ptr<JobPolicy> policy_;
  std::optional<ControlSocket> control_;
  EventLoop::Clock::time_point started_;
  EventLoop::Clock::time_point looked_around_;
};

}  // namespace cohort::launch
