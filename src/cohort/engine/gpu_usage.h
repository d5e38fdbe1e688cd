#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string_view>

namespace cohort::engine {

// Bytes of GPU memory by process, over all GPUs of this machine, as the driver's own tool
// `nvidia-smi` tells; empty where there is none, or where it does not answer within 2 s.
std::map<pid_t, std::uint64_t> gpu_memory_by_process();

// The answer of that tool as CSV without header and units: "4711, 1024" a line, in MiB. A line of
// another form ("[N/A]" of a GPU that is shared by virtual machines) is left out. Pure.
std::map<pid_t, std::uint64_t> parse_gpu_memory(std::string_view csv);

}  // namespace cohort::engine
