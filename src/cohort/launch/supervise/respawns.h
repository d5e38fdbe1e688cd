#pragma once

#include <chrono>
#include <map>

#include "cohort/launch/ending/task_record.h"

namespace cohort::launch {

// Decides whether and when a worker of an elastic job that died is started again, while the others
// go on. Knows no processes and no clock. Confined to one thread.
//
// - A worker is started again `limit` times at most. Whoever was told to go (Outcome: a preemption)
//   is not counted, unless that happened within kQuick of its start.
// - At once; but a worker that dies within kQuick of its start, and again, waits kFirstDelay, then
//   twice as long each time, kLongestDelay at most.
// - Exit code 2 of a worker that never was a member is a usage error: it would only say so again.
class Respawns {
 public:
  static constexpr std::chrono::milliseconds kQuick{2000};
  static constexpr std::chrono::milliseconds kFirstDelay{250};
  static constexpr std::chrono::milliseconds kLongestDelay{5000};

  enum class Verdict { start_again, usage_error, used_up };
  struct Decision {
    Verdict verdict = Verdict::start_again;
    std::chrono::milliseconds delay{0};
    int charged = 0;  // how often it has been started again, this time included, that counts
    bool is_preemption = false;
  };

  explicit Respawns(int limit) : limit_(limit) {}

  // `task` has ended, not well. `was_member`: of any view, in this run.
  Decision on_death(const TaskRecord& task, bool was_member);

  // A person wants it again: it counts from 0.
  void forgive(const cluster::TaskId& task) { histories_.erase(task); }

 private:
  struct History {
    int charged = 0;
    int quick = 0;  // deaths in a row
  };
  int limit_;
  std::map<cluster::TaskId, History> histories_;
};

}  // namespace cohort::launch
