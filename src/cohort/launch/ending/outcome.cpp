#include "cohort/launch/ending/outcome.h"

#include <csignal>

namespace cohort::launch {

Outcome::Outcome(const std::vector<cluster::TaskId>& tasks, SuccessPolicy policy) {
  for (const auto& task : gating_tasks(tasks, policy)) awaited_.insert(task);
}

Outcome::Effect Outcome::on_exit(const cluster::TaskId& task, const ExitStatus& status) {
  if (status.success()) {
    awaited_.erase(task);
    return awaited_.empty() ? Effect::success : Effect::none;
  }
  if (task.type == cluster::TaskType::evaluator) return Effect::none;
  return is_preemption(status) ? Effect::preemption : Effect::failure;
}

bool is_preemption(const ExitStatus& status) {
  if (status.signal != 0) return status.signal == SIGTERM;
  return status.code == 42 || status.code == 128 + SIGTERM;
}

}  // namespace cohort::launch
