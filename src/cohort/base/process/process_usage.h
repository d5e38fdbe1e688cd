#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace cohort {

struct ProcessUsage {
  double cpu_seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::vector<pid_t> processes;  // that were counted
};

// What each of these processes uses now, together with all that descend from it, as /proc tells:
// one pass over it. A process that is not there, or that this process may not look at, is left out.
std::map<pid_t, ProcessUsage> usage_of_trees(const std::vector<pid_t>& roots);

}  // namespace cohort
