#pragma once

#include <sys/resource.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/output/screen.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/process/memory_pressure.h"
#include "cohort/launch/supervise/job_machine.h"
#include "cohort/launch/supervise/job_services.h"
#include "cohort/launch/task/task_process.h"

namespace cohort::launch {

// The tasks of the attempt that runs now, and what they need to start: services, ports, a plan, a
// screen. Tells `machine` of each start and each end.
//
// Confined to the launcher's main thread. The destructor and clear() kill what still runs.
class JobTasks {
 public:
  enum class Which { training, all };  // all: with parameter servers and evaluators

  // All of these must outlive this object; `identity` gets the addresses of each attempt's
  // services.
  JobTasks(const JobOptions& options, JobIdentity& identity,
           const cluster::Environment& environment, EventLoop& loop, Guard& guard,
           JobMachine& machine);

  // A new attempt: new services, and a plan of it. No task of an earlier one may be left. Throws
  // what the services and the plan throw.
  void lay_out(int attempt);
  std::vector<cluster::TaskId> planned() const { return planner_->tasks(); }
  void make(const cluster::TaskId& task);  // in the order of planned()
  void clear();

  // While it does not run: from now on it belongs on this host.
  void place(const TaskProcess& task, const std::string& host);
  // For the first time or again. Throws what TaskProcess::start() throws.
  void start(TaskProcess& task);

  const std::vector<std::unique_ptr<TaskProcess>>& all() const { return tasks_; }
  TaskProcess& find(const cluster::TaskId& id) const;
  std::vector<TaskRecord> records() const;
  std::set<pid_t> pids() const;  // of those that live
  const JobServices& services() const { return *services_; }

  // What has happened to the tasks since the last call; `on_exit` for each that has ended, before
  // the next is looked at. True: something has.
  bool check(const std::function<void(TaskProcess&)>& on_exit);
  void signal(int number);
  void ask_to_stop(Which which);
  void kill_late(Which which);  // and says so of each
  // Why a task that was killed probably ran out of memory; "" when nothing points that way.
  std::string memory_evidence(const TaskRecord& task) { return oom_.evidence(task.pid); }
  // From here on no reader of the screen is waited for.
  void drop_if_blocked() { screen_.drop_if_blocked(); }

 private:
  const JobOptions& options_;
  JobIdentity& identity_;
  const cluster::Environment& environment_;
  EventLoop& loop_;
  Guard& guard_;
  JobMachine& machine_;
  DescriptorWindow window_;
  Screen screen_;
  OomWatch oom_;
  std::optional<rlimit> file_limit_;  // as the launcher found it, for the tasks
  PortReservation ports_;
  std::unique_ptr<JobServices> services_;
  std::optional<Planner> planner_;
  int attempt_ = 0;
  std::vector<std::unique_ptr<TaskProcess>> tasks_;
};

}  // namespace cohort::launch
