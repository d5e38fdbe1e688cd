#include "cohort/engine/container_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/unique_fd.h"
#include "cohort/engine/container_tool.h"
#include "cohort/launch/process/leftovers.h"

namespace cohort::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kLeftoverWait = 10s;  // the guard of a killed launcher takes less

// Waits for the end of the process behind a pidfd.
void await_end(int process) {
  pollfd watched{.fd = process, .events = POLLIN, .revents = 0};
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void keep(int process, const AttemptRequest& request, const std::string& job) {
  int status = 1;
  try {
    await_end(process);
    const Deadline deadline = Deadline::after(kLeftoverWait);
    while (launch::count_leftovers(job) > 0 && !deadline.expired())
      std::this_thread::sleep_for(10ms);  // the process table reports no change
    const int removed =
        remove_containers(kAttemptLabel, request.id, cluster::Environment::of_this_process());
    if (removed > 0) log::info("removed {} containers that the attempt left", removed);
    status = 0;
  } catch (const std::exception& error) {
    log::warning("containers of {} may be left: {}", request.id, error.what());
  }
  ::_exit(status);
}

}  // namespace

void start_container_keeper(const AttemptRequest& request, const std::string& job) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process) throw SystemError("cannot watch this process", errno);
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("cannot start the keeper of containers", errno);
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return;
  }
  ::setsid();
  if (::fork() != 0) ::_exit(0);  // so that its parent is gone
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "cohort-keeper");
  // Nothing of this process stays open but what it logs to, at a number that is left alone.
  const int watched = ::dup2(process.get(), STDERR_FILENO + 1);
  ::syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0);
  keep(watched, request, job);
}

}  // namespace cohort::engine
