#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace cohort {

// When the process started, in ticks since boot; 0 when there is none. With the pid it names one
// process for as long as the host runs.
std::uint64_t process_start_time(pid_t pid);

// "BOOT PID_NAMESPACE PID START": no other process ever has the same. Without spaces inside.
std::string process_identity(pid_t pid);

// True when the process of that identity has ended. False also where this process cannot know: it
// ran under another kernel or in another pid namespace. A text of another form has ended.
bool process_ended(const std::string& identity);

}  // namespace cohort
