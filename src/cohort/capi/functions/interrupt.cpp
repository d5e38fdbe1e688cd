#include "cohort/capi/functions/interrupt.h"

#include <atomic>
#include <mutex>

namespace cohort::capi {

namespace {

std::mutex check_mutex;  // guards the two
cohort_interrupt_check current_check = nullptr;
void* current_user = nullptr;
std::atomic<bool> has_check = false;

bool ask_caller() {
  cohort_interrupt_check check = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(check_mutex);
    check = current_check;
    user = current_user;
  }
  return check != nullptr && check(user) != 0;
}

}  // namespace

void set_interrupt_check(cohort_interrupt_check check, void* user) {
  const std::lock_guard lock(check_mutex);
  current_check = check;
  current_user = user;
  has_check = check != nullptr;
}

CallerWaits::CallerWaits() {
  if (has_check) interrupt_.emplace(ask_caller);
}

}  // namespace cohort::capi
