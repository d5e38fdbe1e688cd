#pragma once

#include <chrono>
#include <map>

#include "cohort/base/process/restart_state.h"
#include "cohort/launch/ending/task_record.h"

namespace cohort::launch {

// Decides whether and when what has ended badly is started again. The same rules for one task of a
// job, for one worker of an elastic job and for a whole job; the numbers differ.
//
// - A restart counts, and there are `limit` of them. A preemption (Outcome: it was told to go) is
//   free, unless it belongs to a row of more than `free_quick_preemptions` quick deaths.
// - A quick death is an end within `quick` of the start. A longer run ends the row.
// - `longest_row` quick deaths in a row are a crash loop: it would go on for ever.
// - The second quick death in a row waits for `first_delay`, each one more for twice as long,
//   `longest_delay` at most. Else the restart is immediate.
//
// Knows no processes and no clock. Confined to one thread.
class RestartPolicy {
 public:
  struct Rules {
    int limit = 0;
    std::chrono::milliseconds quick{0};
    int free_quick_preemptions = 0;
    int longest_row = 0;  // 0: there is no such end
    std::chrono::milliseconds first_delay{0};
    std::chrono::milliseconds longest_delay{0};
    bool limits_servers = true;  // false: a parameter server has no limit but 0
  };

  // One task of a job, alone. The others wait for it, so it starts at once; so it must not loop. A
  // process that dies in its first second never reached its work. A parameter server that comes
  // again has lost nothing: any number of times.
  static Rules for_task(int limit);
  // One worker of an elastic job. The others go on meanwhile, so it may wait, and the limit alone
  // ends a loop. Joining takes longer than starting: two seconds.
  static Rules for_worker(int limit);
  // All tasks of a job. A scheduler that takes a machine away does so after minutes; three ends in
  // a row that look like that within ten seconds may be chance, a fourth is the program's own.
  static Rules for_job(int limit);

  enum class Answer { restart, limit_reached, crash_loop };
  struct Decision {
    Answer answer = Answer::restart;
    std::chrono::milliseconds delay{0};
    int counted = 0;       // restarts that count, this one included
    bool is_free = false;  // a preemption that does not count
    int quick_deaths = 0;  // in a row, this one included
  };

  explicit RestartPolicy(Rules rules) : rules_(rules) {}

  const Rules& rules() const { return rules_; }

  // This task has ended badly. Each task has a history of its own.
  Decision on_task_end(const TaskRecord& task);
  // The job has ended badly because of this task. There is one history.
  Decision on_job_end(const TaskRecord& cause) { return decide(job_, cause); }

  // A person wants the task again: it counts from 0.
  void reset_history(const cluster::TaskId& task) { tasks_.erase(task); }

 private:
  struct History {
    int counted = 0;
    int quick_deaths = 0;  // in a row
  };
  Decision decide(History& history, const TaskRecord& ended) const;
  std::chrono::milliseconds delay_after(int quick_deaths) const;

  Rules rules_;
  std::map<cluster::TaskId, History> tasks_;
  History job_;
};

// Whether a task of a job that is not elastic, which has ended, may be started again alone.
// - Only a task that has asked for it (`flag`), and only after a signal: an exit code is the
//   program's own decision, and SIGTERM means that the task was told to go.
// - In a job with parameter servers also a task that SIGKILL ended within kStartingTime, before it
//   could ask: no other task knew it yet.
inline constexpr std::chrono::seconds kStartingTime{10};
bool may_restart_alone(const TaskRecord& task, RestartStateOwner::Flag flag, bool has_servers);

// Exit code 2 of a worker that never was a member: started again it would end in the same way.
bool is_usage_error(const TaskRecord& task, bool was_member);

}  // namespace cohort::launch
