#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cohort::transport {

// When the process started, in ticks since boot; 0 when there is none. With the pid it names one
// process for as long as the host runs.
std::uint64_t process_start_time(pid_t pid);

}  // namespace cohort::transport
