#pragma once

#include <chrono>
#include <map>

#include "cohort/launch/task_record.h"

namespace cohort::launch {

// Decides whether a task that was killed is started again alone, while the rest of its job goes on.
// Knows no processes and no clock. Of one attempt; confined to one thread.
//
// - Only a task that has asked for it, and only after a signal: an exit code is the program's own
//   word, and whoever dies of SIGTERM was told to go (Outcome).
// - A task that trains is started again `limit` times at most, a parameter server any number of
//   times: its job has lost nothing.
// - Whoever dies kMaxQuickDeaths times in a row, each time within kQuick, would do so for ever.
class LoneRestarts {
 public:
  static constexpr std::chrono::milliseconds kQuick{1000};
  static constexpr int kMaxQuickDeaths = 5;

  enum class Verdict { restart, no_case, crash_loop, used_up };

  explicit LoneRestarts(int limit) : limit_(limit) {}  // 0: no task is ever started again alone

  // `task` has ended; `asked` is what it last said.
  Verdict on_exit(const TaskRecord& task, bool asked);

 private:
  int limit_;
  std::map<cluster::TaskId, int> quick_deaths_;  // in a row
};

}  // namespace cohort::launch
