#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "cohort/base/net/event_loop.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/launch/supervise/job_machine.h"
#include "cohort/launch/supervise/job_tasks.h"

namespace cohort::launch {

// What a policy works with. All of it outlives the policy.
struct JobContext {
  JobOptions& options;
  JobIdentity& identity;
  const cluster::Environment& environment;
  std::filesystem::path folder;  // of the job's output
  EventLoop& loop;
  JobTasks& tasks;
  JobMachine& machine;
  // Carries out what the machine wants and writes the job's record. Call it after an event that no
  // method of JobPolicy brought.
  std::function<void()> changed;
  // Sees to signals, output and questions now and then, while much is to be done. False: the
  // attempt does not go on.
  std::function<bool()> look_around;
};

// What differs between a job with a fixed number of tasks and an elastic one: which tasks run, and
// what the end of one means. Of one job, through all of its attempts; tells context.machine when
// the attempt has succeeded or failed.
//
// Confined to the launcher's main thread.
class JobPolicy {
 public:
  virtual ~JobPolicy() = default;

  // Before an attempt is laid out: waits for what it needs. False: the job ends without one.
  virtual bool prepare() = 0;
  // Its tasks have been made, none runs.
  virtual void begin_attempt() = 0;
  // Starts the tasks that run from the beginning. Throws what starting throws.
  virtual void start() = 0;
  // Processes may have ended; comes before anything slow is done about it.
  virtual void before_check() {}
  // A task has ended, and the attempt is not being stopped.
  virtual void on_exit(TaskProcess& task) = 0;
  // A task will be started although none may live now.
  virtual bool is_start_due() const = 0;
  virtual void stop() = 0;          // from here on nothing is started or decided
  virtual void end_attempt() = 0;   // its tasks are still there, none runs
  virtual void drop_attempt() = 0;  // its tasks are about to be destroyed

  // Of an attempt that failed: whether another one could do better.
  virtual bool may_restart() const = 0;
  // From now on so many workers. Says what happens. Throws InvalidInput.
  virtual std::string scale(int workers) = 0;
  // Adds what it knows; `live`: also what only a launcher that is asked can tell.
  virtual void describe(JobRecord& record, bool live) const = 0;
  // Processes of its own, which are no tasks.
  virtual std::set<pid_t> processes() const { return {}; }
};

}  // namespace cohort::launch
