#pragma once

#include <cstdint>
#include <string>

namespace cohort {

// Cores that this process may use: its affinity mask and its cgroup's CPU limit; at least 1.
int usable_cores();

std::string host_name();

// Bytes of memory: the machine's, or the cgroup's limit where that is lower.
std::uint64_t usable_memory();

// The folder of this process's cgroup (version 2); "" where there is none.
std::string cgroup_folder();

}  // namespace cohort
