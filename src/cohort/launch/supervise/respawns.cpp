#include "cohort/launch/supervise/respawns.h"

#include <algorithm>

#include "cohort/launch/ending/outcome.h"

namespace cohort::launch {
namespace {

constexpr int kUsageError = 2;

std::chrono::milliseconds delay_after(int quick_deaths) {
  if (quick_deaths < 2) return std::chrono::milliseconds(0);
  auto delay = Respawns::kFirstDelay;
  for (int i = 2; i < quick_deaths && delay < Respawns::kLongestDelay; ++i) delay *= 2;
  return std::min(delay, Respawns::kLongestDelay);
}

}  // namespace

Respawns::Decision Respawns::on_death(const TaskRecord& task, bool was_member) {
  History& history = histories_[task.id];
  const bool is_quick = task.ran_for < kQuick;
  Decision decision{.charged = history.charged,
                    .is_preemption = is_preemption(*task.exit) && !is_quick};
  if (!was_member && task.exit->signal == 0 && task.exit->code == kUsageError) {
    decision.verdict = Verdict::usage_error;
    return decision;
  }
  if (!decision.is_preemption && history.charged >= limit_) {
    decision.verdict = Verdict::used_up;
    return decision;
  }
  history.quick = is_quick ? history.quick + 1 : 0;
  if (!decision.is_preemption) decision.charged = ++history.charged;
  decision.delay = delay_after(history.quick);
  return decision;
}

}  // namespace cohort::launch
