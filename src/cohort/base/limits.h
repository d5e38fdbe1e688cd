#pragma once

#include <cstdint>

namespace cohort {

// Raises this process's soft limit of open files (RLIMIT_NOFILE) towards `wanted`, as far as the
// hard limit allows; never lowers it. Returns the limit that then holds. Thread-safe.
std::uint64_t raise_file_limit(std::uint64_t wanted);

}  // namespace cohort
