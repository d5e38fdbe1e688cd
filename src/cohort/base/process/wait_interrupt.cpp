#include "cohort/base/process/wait_interrupt.h"

#include <algorithm>
#include <utility>

namespace cohort {

namespace {

constexpr std::chrono::milliseconds kAskPeriod{50};

thread_local WaitInterrupt* innermost = nullptr;

}  // namespace

WaitInterrupt::WaitInterrupt(std::function<bool()> check)
    : outer_(innermost), check_(std::move(check)) {
  innermost = this;
}

WaitInterrupt::~WaitInterrupt() { innermost = outer_; }

bool WaitInterrupt::is_due() noexcept {
  if (innermost == nullptr || innermost->told_) return false;
  const TimePoint now = Deadline::Clock::now();
  if (innermost->next_ == TimePoint{}) innermost->next_ = now + kAskPeriod;
  return now >= innermost->next_;
}

void WaitInterrupt::ask() {
  if (!is_due()) return;
  innermost->next_ = Deadline::Clock::now() + kAskPeriod;
  if (!innermost->check_()) return;
  innermost->told_ = true;
  throw Interrupted("the wait was interrupted");
}

Deadline WaitInterrupt::limit(Deadline deadline) noexcept {
  if (innermost == nullptr || innermost->told_) return deadline;
  if (innermost->next_ == TimePoint{}) innermost->next_ = Deadline::Clock::now() + kAskPeriod;
  return Deadline::at(std::min(deadline.when(), innermost->next_));
}

}  // namespace cohort
