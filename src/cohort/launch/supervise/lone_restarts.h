#pragma once

#include <chrono>
#include <map>

#include "cohort/base/process/restart_state.h"
#include "cohort/launch/ending/task_record.h"

namespace cohort::launch {

// Decides whether a task that was killed is started again alone, while the rest of its job goes on.
// Knows no processes and no clock. Of one attempt; confined to one thread.
//
// - Only a task that has asked for it, and only after a signal: an exit code is the program's own
//   word, and whoever dies of SIGTERM was told to go (Outcome).
// - In a job with parameter servers also a task that was killed (SIGKILL) within kStarting, before
//   it could ask: nobody knew it yet.
// - A task that trains is started again `limit` times at most, a parameter server any number of
//   times: its job has lost nothing.
// - Whoever dies kMaxQuickDeaths times in a row, each time within kQuick, would do so for ever.
class LoneRestarts {
 public:
  static constexpr std::chrono::milliseconds kQuick{1000};
  static constexpr int kMaxQuickDeaths = 5;
  static constexpr std::chrono::seconds kStarting{10};

  enum class Verdict { restart, no_case, crash_loop, used_up };

  // A limit of 0: no task is ever started again alone.
  explicit LoneRestarts(int limit, bool has_servers = false)
      : limit_(limit), has_servers_(has_servers) {}

  // `task` has ended; `flag` is what it last said.
  Verdict on_exit(const TaskRecord& task, RestartStateOwner::Flag flag);

 private:
  bool asked(const TaskRecord& task, RestartStateOwner::Flag flag) const;

  int limit_;
  bool has_servers_;
  std::map<cluster::TaskId, int> quick_deaths_;  // in a row
};

}  // namespace cohort::launch
