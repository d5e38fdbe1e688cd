#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort {

// Looked at now and then during a wait: throws when the wait makes no sense any more. Empty: it
// always does.
using Check = std::function<void()>;

inline constexpr std::chrono::milliseconds kCheckPeriod{10};

// `wait(slice)` with deadlines that are never further away than kCheckPeriod, and `check` before
// each, and this thread's WaitInterrupt. `wait` throws TimeoutError at its deadline, and can then be called again.
template <typename Wait>
auto wait_checking(const Check& check, Deadline deadline, Wait&& wait) {
  if (!check) return wait(deadline);
  while (true) {
    check();
    WaitInterrupt::ask();
    const Deadline slice =
        Deadline::at(std::min(deadline.when(), Deadline::after(kCheckPeriod).when()));
    try {
      return wait(slice);
    } catch (const TimeoutError&) {
      if (deadline.expired()) throw;
    }
  }
}

}  // namespace cohort
