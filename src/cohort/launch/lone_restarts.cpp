#include "cohort/launch/lone_restarts.h"

#include "cohort/launch/outcome.h"

namespace cohort::launch {

LoneRestarts::Verdict LoneRestarts::on_exit(const TaskRecord& task, bool asked) {
  if (limit_ == 0 || !asked || task.exit->signal == 0 || is_preemption(*task.exit))
    return Verdict::no_case;
  int& quick = quick_deaths_[task.id];
  quick = task.ran_for < kQuick ? quick + 1 : 0;
  if (quick >= kMaxQuickDeaths) return Verdict::crash_loop;
  const bool is_bounded = task.id.type != cluster::TaskType::ps;
  return is_bounded && task.restarts >= limit_ ? Verdict::used_up : Verdict::restart;
}

}  // namespace cohort::launch
