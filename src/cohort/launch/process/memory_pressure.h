#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// Tells whether the kernel's out-of-memory killer was at work. Counters are read when the object is
// made; evidence() compares. Confined to one thread.
class OomWatch {
 public:
  OomWatch();

  // Why a process that died by SIGKILL probably ran out of memory, as a sentence; "" when nothing
  // points that way. Sure where the kernel's log can be read, else from the kill counters.
  std::string evidence(pid_t pid);

 private:
  // The kernel's own line about the kill; "" when there is none or the log may not be read.
  std::string kernel_log_line(pid_t pid);

  std::uint64_t machine_kills_;
  std::uint64_t cgroup_kills_;
  UniqueFd kernel_log_;
  std::vector<std::string> kernel_lines_;  // about kills, since this object was made
};

}  // namespace cohort::launch
