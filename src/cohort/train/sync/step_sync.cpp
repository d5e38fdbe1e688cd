#include "cohort/train/sync/step_sync.h"

#include "cohort/base/error.h"

namespace cohort::train {

torch::Tensor StepSync::finish_unread_step(double, bool) {
  COHORT_CHECK(can_defer(), "sums of these steps are read one by one");
  return {};
}

StepResult StepSync::read_step(const StepInfo&, std::span<const Sums>) {
  COHORT_CHECK(can_defer(), "sums of these steps are read one by one");
  return {};
}

}  // namespace cohort::train
