#include "cohort/launch/supervise/restart_policy.h"

#include <algorithm>
#include <csignal>

#include "cohort/launch/ending/outcome.h"

namespace cohort::launch {

using std::chrono::milliseconds;

RestartPolicy::Rules RestartPolicy::for_task(int limit) {
  return {.limit = limit, .quick = milliseconds(1000), .longest_row = 5, .limits_servers = false};
}

RestartPolicy::Rules RestartPolicy::for_worker(int limit) {
  return {.limit = limit,
          .quick = milliseconds(2000),
          .first_delay = milliseconds(250),
          .longest_delay = milliseconds(5000)};
}

RestartPolicy::Rules RestartPolicy::for_job(int limit) {
  return {.limit = limit, .quick = milliseconds(10'000), .free_quick_preemptions = 3};
}

RestartPolicy::Decision RestartPolicy::on_task_end(const TaskRecord& task) {
  return decide(tasks_[task.id], task);
}

RestartPolicy::Decision RestartPolicy::decide(History& history, const TaskRecord& ended) const {
  history.quick_deaths = ended.ran_for < rules_.quick ? history.quick_deaths + 1 : 0;
  Decision decision{.is_free = is_preemption(*ended.exit) &&
                               history.quick_deaths <= rules_.free_quick_preemptions,
                    .quick_deaths = history.quick_deaths};
  const bool is_limited =
      rules_.limits_servers || rules_.limit == 0 || ended.id.type != cluster::TaskType::ps;
  if (rules_.longest_row > 0 && history.quick_deaths >= rules_.longest_row)
    decision.answer = Answer::crash_loop;
  else if (!decision.is_free && is_limited && history.counted >= rules_.limit)
    decision.answer = Answer::limit_reached;
  else if (!decision.is_free)
    ++history.counted;
  decision.counted = history.counted;
  if (decision.answer == Answer::restart) decision.delay = delay_after(history.quick_deaths);
  return decision;
}

milliseconds RestartPolicy::delay_after(int quick_deaths) const {
  if (quick_deaths < 2) return milliseconds(0);
  auto delay = rules_.first_delay;
  for (int i = 2; i < quick_deaths && delay < rules_.longest_delay; ++i) delay *= 2;
  return std::min(delay, rules_.longest_delay);
}

bool may_restart_alone(const TaskRecord& task, RestartStateOwner::Flag flag, bool has_servers) {
  using Flag = RestartStateOwner::Flag;
  if (task.exit->signal == 0 || is_preemption(*task.exit)) return false;
  if (flag == Flag::restart) return true;
  return flag == Flag::nothing && has_servers && task.exit->signal == SIGKILL &&
         task.ran_for < kStartingTime;
}

bool is_usage_error(const TaskRecord& task, bool was_member) {
  constexpr int kUsageError = 2;
  return !was_member && task.exit->signal == 0 && task.exit->code == kUsageError;
}

}  // namespace cohort::launch
