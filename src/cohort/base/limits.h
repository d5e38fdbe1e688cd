#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

// Raises this process's soft limit of open files (RLIMIT_NOFILE) towards `wanted`, as far as the
// hard limit allows; never lowers it. Returns the limit that then holds. Thread-safe.
std::uint64_t raise_file_limit(std::uint64_t wanted);

// Throws SystemError that names `what` and the limits unless this process can have so many more
// threads now. For code that cannot say so itself: a library that starts threads on a thread of its
// own ends the process with "terminate called" instead.
void require_threads(int count, std::string_view what);

// A sentence that names the limits on processes and memory, and what they are now.
std::string limits_advice();

}  // namespace cohort
