#include "cohort/base/process/process_usage.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "cohort/base/text.h"

namespace cohort {
namespace {

struct OneProcess {
  pid_t parent = 0;
  ProcessUsage usage;
};

// Fields of proc(5)'s stat, behind the name, which may hold anything but ends with the last ')'.
std::optional<OneProcess> read_process(const std::filesystem::path& stat) {
  std::ifstream file(stat);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  int parent = 0;
  unsigned long user = 0, system = 0;
  long resident = 0;
  constexpr const char* kFormat =
      " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld";
  if (std::sscanf(line.c_str() + name_end + 1, kFormat, &parent, &user, &system, &resident) != 4)
    return std::nullopt;
  return OneProcess{
      parent,
      {static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK)),
       static_cast<std::uint64_t>(resident) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))}};
}

}  // namespace

std::map<pid_t, ProcessUsage> usage_of_trees(const std::vector<pid_t>& roots) {
  std::map<pid_t, OneProcess> all;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code))
    if (const auto pid = parse_unsigned(entry.path().filename().string()))
      if (const auto one = read_process(entry.path() / "stat"))
        all.emplace(static_cast<pid_t>(*pid), *one);
  std::map<pid_t, ProcessUsage> trees;
  for (const pid_t root : roots)
    if (all.contains(root)) trees[root] = {};
  for (const auto& [pid, one] : all) {
    pid_t at = pid;
    // Bounded: processes come and go while they are read, so parents may lead in a circle.
    for (std::size_t up = 0; up <= all.size(); ++up) {
      if (const auto tree = trees.find(at); tree != trees.end()) {
        tree->second.cpu_seconds += one.usage.cpu_seconds;
        tree->second.resident_bytes += one.usage.resident_bytes;
        tree->second.processes.push_back(pid);
        break;
      }
      const auto found = all.find(at);
      if (found == all.end()) break;
      at = found->second.parent;
    }
  }
  return trees;
}

}  // namespace cohort
