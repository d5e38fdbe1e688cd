#include "cohort/launch/supervise/group_restarts.h"

#include "cohort/base/log/log.h"
#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/ending/root_cause.h"

namespace cohort::launch {
namespace {

constexpr std::chrono::seconds kQuickPreemption{10};
constexpr int kMaxQuickPreemptions = 3;

}  // namespace

bool GroupRestarts::on_failure(const TaskRecord& cause, int attempt) {
  if (is_preemption(*cause.exit)) {
    quick_preemptions_ = cause.ran_for < kQuickPreemption ? quick_preemptions_ + 1 : 0;
    if (quick_preemptions_ <= kMaxQuickPreemptions) {
      log::info("{} was preempted ({}); starting attempt {}, which is not counted as a restart",
                to_string(cause.id), to_string(*cause.exit), attempt + 1);
      return true;
    }
    log::warning("{} ended as if preempted {} times in a row, each within {} s: that is a failure",
                 to_string(cause.id), quick_preemptions_, kQuickPreemption.count());
  }
  if (charged_ >= limit_) return false;
  ++charged_;
  log::info("{}", summary_line(cause));
  log::info("starting attempt {} (restart {} of {})", attempt + 1, charged_, limit_);
  return true;
}

}  // namespace cohort::launch
