#include "cohort/launch/supervise/lone_restarts.h"

#include <csignal>

#include "cohort/launch/ending/outcome.h"

namespace cohort::launch {

bool LoneRestarts::asked(const TaskRecord& task, RestartStateOwner::Flag flag) const {
  if (flag == RestartStateOwner::Flag::restart) return true;
  return flag == RestartStateOwner::Flag::nothing && has_servers_ && task.exit->signal == SIGKILL &&
         task.ran_for < kStarting;
}

LoneRestarts::Verdict LoneRestarts::on_exit(const TaskRecord& task, RestartStateOwner::Flag flag) {
  if (limit_ == 0 || !asked(task, flag) || task.exit->signal == 0 || is_preemption(*task.exit))
    return Verdict::no_case;
  int& quick = quick_deaths_[task.id];
  quick = task.ran_for < kQuick ? quick + 1 : 0;
  if (quick >= kMaxQuickDeaths) return Verdict::crash_loop;
  const bool is_bounded = task.id.type != cluster::TaskType::ps;
  return is_bounded && task.restarts >= limit_ ? Verdict::used_up : Verdict::restart;
}

}  // namespace cohort::launch
