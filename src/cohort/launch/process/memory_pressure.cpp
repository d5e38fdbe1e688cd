#include "cohort/launch/process/memory_pressure.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "cohort/base/process/machine.h"
#include "cohort/base/unique_fd.h"

namespace cohort::launch {
namespace {

// The number behind `name` in a file of "name number" lines; 0 when it is not there.
std::uint64_t counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  for (std::uint64_t value; file >> key >> value;)
    if (key == name) return value;
  return 0;
}

std::uint64_t machine_kills() { return counter("/proc/vmstat", "oom_kill"); }
std::uint64_t cgroup_kills() { return counter(cgroup_folder() + "/memory.events", "oom_kill"); }

}  // namespace

OomWatch::OomWatch()
    : machine_kills_(machine_kills()),
      cgroup_kills_(cgroup_kills()),
      kernel_log_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  // What was said before the job is about others, even where it names the number of a task.
  if (kernel_log_) ::lseek(kernel_log_.get(), 0, SEEK_END);
}

std::string OomWatch::kernel_log_line(pid_t pid) {
  char record[8192];
  while (kernel_log_) {
    ssize_t count = ::read(kernel_log_.get(), record, sizeof record);
    if (count < 0 && errno == EPIPE) continue;  // a record was overwritten while we read
    if (count <= 0) break;
    std::string text(record, static_cast<size_t>(count));
    size_t begin = text.find("Killed process ");
    if (begin != std::string::npos)
      kernel_lines_.push_back(text.substr(begin, text.find('\n', begin) - begin));
  }
  std::string needle = fmt::format("Killed process {} ", pid);
  for (const auto& line : kernel_lines_)
    if (line.starts_with(needle)) return line;
  return "";
}

std::string OomWatch::evidence(pid_t pid) {
  if (std::string line = kernel_log_line(pid); !line.empty())
    return "the kernel's out-of-memory killer ended it: " + line;
  if (cgroup_kills() > cgroup_kills_)
    return "the memory limit of this cgroup was hit during the job (memory.events: oom_kill rose)";
  if (machine_kills() > machine_kills_)
    return "the machine ran out of memory during the job (/proc/vmstat: oom_kill rose)";
  return "";
}

}  // namespace cohort::launch
