#include "cohort/tools/dashboard_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/socket.h"
#include "cohort/engine/supervisor_process.h"

namespace cohort::tools {
namespace {

// In a child: leaves a grandchild without a parent, and ends.
[[noreturn]] void become_dashboard(int input, char* const* words) {
  ::setsid();
  if (const pid_t child = ::fork(); child != 0) ::_exit(child < 0 ? errno : 0);
  if (::dup2(input, STDIN_FILENO) >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
    ::execv(words[0], words);
  ::_exit(127);
}

}  // namespace

DashboardProcess::DashboardProcess() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  const UniqueFd input(ends[0]);
  pipe_.reset(ends[1]);
  std::string program = engine::this_program().string(), command = "attach", place = "-";
  char* const words[] = {program.data(), command.data(), place.data(), nullptr};
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("cannot start a process for --dashboard", errno);
  if (child == 0) become_dashboard(input.get(), words);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw SystemError("cannot start a process for --dashboard", WEXITSTATUS(status));
}

void DashboardProcess::show(const std::filesystem::path& output) {
  const std::string text = output.string() + "\n";
  // Less than a pipe holds. SIGPIPE is ignored by the launcher; a process that is gone has said why.
  if (::write(pipe_.get(), text.data(), text.size()) < 0)
    log::warning("--dashboard: the process that shows the run is gone");
  pipe_.reset();
}

}  // namespace cohort::tools
