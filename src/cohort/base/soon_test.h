#pragma once

#include <chrono>

#include "cohort/base/deadline.h"

namespace cohort {

// How long a test waits for what takes milliseconds when all is well.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

}  // namespace cohort
