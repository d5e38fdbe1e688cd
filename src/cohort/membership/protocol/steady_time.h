#pragma once

#include "cohort/base/deadline.h"
#include "cohort/membership/protocol/leases.h"

// The clock that drives the state machines in a process. Pure functions, thread-safe.
namespace cohort::membership {

inline Time steady_now() { return Deadline::Clock::now().time_since_epoch(); }

// Time::max() is never.
inline Deadline deadline_at(Time time) {
  if (time == Time::max()) return Deadline::never();
  return Deadline::at(Deadline::Clock::time_point(time));
}

}  // namespace cohort::membership
