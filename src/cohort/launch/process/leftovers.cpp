#include "cohort/launch/process/leftovers.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"

namespace cohort::launch {
namespace {

using namespace std::chrono_literals;

struct Process {
  pid_t parent;
  std::string name;
};

std::optional<std::string> read_proc(pid_t pid, const char* file) {
  try {
    return read_file(fmt::format("/proc/{}/{}", pid, file));
  } catch (const SystemError&) {
    return std::nullopt;  // gone meanwhile, or another user's: not ours to touch
  }
}

// Everything that runs; what is dead and waits for its parent to notice does not.
std::map<pid_t, Process> running_processes() {
  std::map<pid_t, Process> processes;
  DIR* directory = ::opendir("/proc");
  if (!directory) return processes;
  while (dirent* entry = ::readdir(directory)) {
    auto number = parse_unsigned(entry->d_name);
    if (!number) continue;
    auto pid = static_cast<pid_t>(*number);
    // "pid (name) state parent ...": the name may hold anything, parentheses too.
    std::string stat = read_proc(pid, "stat").value_or("");
    size_t open = stat.find('('), close = stat.rfind(')');
    if (close == std::string::npos) continue;
    auto fields = split(stat.substr(close + 1), ' ');
    if (fields.size() < 3 || fields[1] == "Z" || fields[1] == "X") continue;
    processes[pid] = {static_cast<pid_t>(parse_unsigned(fields[2]).value_or(0)),
                      stat.substr(open + 1, close - open - 1)};
  }
  ::closedir(directory);
  return processes;
}

bool descends_from(pid_t ancestor, pid_t pid, const std::map<pid_t, Process>& processes) {
  // The table is no snapshot: a number used twice may have made a circle of it.
  for (size_t steps = 0; steps < processes.size(); ++steps) {
    auto found = processes.find(pid);
    if (found == processes.end()) return false;
    pid = found->second.parent;
    if (pid == ancestor) return true;
  }
  return false;
}

bool carries(pid_t pid, const std::string& variable) {
  auto variables = split(read_proc(pid, "environ").value_or(""), '\0');
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void reap_orphans(const std::set<pid_t>& known) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    if (info.si_pid == 0 || known.contains(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

int end_leftovers(const std::string& job, pid_t spared, Deadline deadline, const char* variable) {
  const std::string marker = fmt::format("{}={}", variable, job);
  const pid_t self = ::getpid();
  std::set<pid_t> hit;
  while (!deadline.expired()) {
    bool found = false;
    auto processes = running_processes();
    for (const auto& [pid, process] : processes) {
      if (pid == self || pid == spared) continue;
      bool ours = descends_from(self, pid, processes) ||
                  (process.name != kGuardName && carries(pid, marker));
      if (!ours || ::kill(pid, SIGKILL) != 0) continue;
      found = true;
      hit.insert(pid);
    }
    if (!found) break;
    std::this_thread::sleep_for(2ms);  // the kernel takes its time to end them; look again
  }
  return static_cast<int>(hit.size());
}

int count_leftovers(const std::string& job, const char* variable) {
  const std::string marker = fmt::format("{}={}", variable, job);
  int count = 0;
  for (const auto& [pid, process] : running_processes())
    if (pid != ::getpid() && process.name != kGuardName && carries(pid, marker)) ++count;
  return count;
}

bool can_find_leftovers() { return read_proc(::getpid(), "environ").has_value(); }

}  // namespace cohort::launch
