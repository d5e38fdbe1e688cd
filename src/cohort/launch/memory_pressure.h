#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace cohort::launch {

// Tells whether the kernel's out-of-memory killer was at work. Counters are read when the object is
// made; evidence() compares. Confined to one thread.
class OomWatch {
 public:
  OomWatch();

  // Why a process that died by SIGKILL probably ran out of memory, as a sentence; "" when nothing
  // points that way. Sure where the kernel's log can be read, else from the kill counters.
  std::string evidence(pid_t pid) const;

 private:
  std::uint64_t machine_kills_;
  std::uint64_t cgroup_kills_;
};

}  // namespace cohort::launch
