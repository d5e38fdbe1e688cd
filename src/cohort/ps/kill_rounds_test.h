#pragma once

#include <cstdlib>

namespace cohort::ps {

// For tests: how often to kill a process; COHORT_KILLS=N says otherwise (as `make test-soak` does).
inline int kill_rounds(int usually) {
  const char* chosen = std::getenv("COHORT_KILLS");
  return chosen == nullptr ? usually : std::atoi(chosen);
}

}  // namespace cohort::ps
