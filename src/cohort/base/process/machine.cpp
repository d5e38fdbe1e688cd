#include "cohort/base/process/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>

namespace cohort {

std::string cgroup_folder() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  return "";
}

int usable_cores() {
  cpu_set_t set;
  int cores = 1;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  // "max 100000" or "<quota> <period>", both in microseconds.
  double quota = 0, period = 0;
  if (std::ifstream file(cgroup_folder() + "/cpu.max"); file >> quota >> period && period > 0)
    cores = std::min(cores, static_cast<int>((quota + period - 1) / period));
  return std::max(cores, 1);
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::uint64_t usable_memory() {
  auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t limit = 0;
  if (std::ifstream file(cgroup_folder() + "/memory.max"); file >> limit)
    bytes = std::min(bytes, limit);
  return bytes;
}

}  // namespace cohort
