#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/environment.h"
#include "cohort/launch/process/descriptor_window.h"

namespace cohort::launch {

// What a task finds open besides its standard streams.
enum class TaskFd { secret, restart_flag, keep_state, last_word };

struct InheritedFd {
  int fd;          // of the launcher
  TaskFd becomes;  // task_fd_number() of it in the task
};

// The number under which a task finds a descriptor: high, so that scripts' own 3 to 9 stay free,
// but within the limit on open files.
int task_fd_number(TaskFd which);

struct SpawnOptions {
  std::filesystem::path program;     // resolved; argv[0] is command.front()
  std::vector<std::string> command;  // not empty
  cluster::Environment environment;  // the whole of it
  int output = -1;                   // becomes standard output and standard error
  int error = -1;                    // standard error of its own; -1: as the output
  int input = -1;                    // standard input; -1: /dev/null
  std::vector<InheritedFd> inherited;
  std::optional<rlimit> file_limit;  // RLIMIT_NOFILE of the task
};

// Starts a program as the leader of its own process group, default signal handling, nothing
// inherited but what SpawnOptions names. The kernel kills the process when
// the calling thread ends (PR_SET_PDEATHSIG), so call it from the thread that lives longest.
// Throws InvalidInput when the program cannot be executed, SystemError when the machine refuses.
// With a `window` of a launcher that has many descriptors it takes less time.
pid_t spawn(const SpawnOptions& options, DescriptorWindow* window = nullptr);

// How a process ended.
struct ExitStatus {
  int code = 0;    // meaningful when signal == 0
  int signal = 0;  // 0: it exited by itself

  bool success() const { return code == 0 && signal == 0; }
  int shell_code() const { return signal ? 128 + signal : code; }  // as `$?` shows it
  // Also where a shell around the program says so.
  bool was_killed() const { return shell_code() == 128 + SIGKILL; }
  bool operator==(const ExitStatus&) const = default;
};

std::string to_string(const ExitStatus& status);  // "exit code 3", "signal 9 (SIGKILL)"
std::string signal_name(int signal);              // "SIGKILL"

// Kills every process of the group that is still there.
void kill_group(pid_t group, int signal);

}  // namespace cohort::launch
