#pragma once

#include "cohort/launch/ending/task_record.h"

namespace cohort::launch {

// Decides whether the whole group is started again after a failure, and says so. A preemption
// (Outcome) is not counted, unless it comes again and again. Of one job; confined to one thread.
class GroupRestarts {
 public:
  explicit GroupRestarts(int limit) : limit_(limit) {}

  // `cause` ended attempt number `attempt`.
  bool on_failure(const TaskRecord& cause, int attempt);

 private:
  int limit_;
  int charged_ = 0;
  int quick_preemptions_ = 0;  // in a row
};

}  // namespace cohort::launch
