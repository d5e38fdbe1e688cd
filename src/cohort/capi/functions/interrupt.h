#pragma once

#include <optional>

#include "cohort/base/process/wait_interrupt.h"
#include "cohort/capi/cohort_c.h"

namespace cohort::capi {

// cohort_set_interrupt_check. Thread-safe.
void set_interrupt_check(cohort_interrupt_check check, void* user);

// While it lives, waits of this thread ask that check; nothing where there is none. For functions of
// the C interface that wait. Confined to one thread.
class CallerWaits {
 public:
  CallerWaits();

 private:
  std::optional<WaitInterrupt> interrupt_;
};

}  // namespace cohort::capi
