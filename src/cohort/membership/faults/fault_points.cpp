#include "cohort/membership/faults/fault_points.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/environment.h"
#include "cohort/cluster/variables.h"

namespace cohort::membership {
namespace {

// What the forked child does; only what is allowed after a fork in a process with threads. It keeps
// no file of the process open but the pipe's end, so a peer of a process that is killed meanwhile
// sees its connection end.
[[noreturn]] void stop_for(pid_t process, int milliseconds, int pipe_end) {
  ::dup2(pipe_end, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0U);
  // By a descriptor: the process may die while it is stopped, and its number be given away.
  int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) ::_exit(1);
  ::syscall(SYS_pidfd_send_signal, handle, SIGSTOP, nullptr, 0);
  pollfd end{.fd = handle, .events = POLLIN, .revents = 0};
  ::poll(&end, 1, milliseconds);
  ::syscall(SYS_pidfd_send_signal, handle, SIGCONT, nullptr, 0);
  ::_exit(0);
}

void pause_process(std::chrono::milliseconds time) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  pid_t self = ::getpid();
  pid_t child = ::_Fork();  // without the handlers of others: the child touches nothing of theirs
  if (child < 0) throw SystemError("cannot fork", errno);
  if (child == 0) stop_for(self, static_cast<int>(time.count()), writing.get());
  writing.reset();
  // Until the child has ended, so that the pause lies here and nowhere later.
  char nothing = 0;
  while (::read(reading.get(), &nothing, 1) < 0 && errno == EINTR) {
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw Error("COHORT_FAULT: this system lets no process stop another one by its descriptor",
                {.advice = "`pause` needs Linux 5.9 or later."});
}

[[noreturn]] void kill_process() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

bool is_at(const Fault& fault, std::string_view phase, std::int64_t step) {
  if (fault.step && *fault.step != step) return false;
  return fault.phase == phase || (fault.phase == "bucket" && phase.starts_with("bucket"));
}

FaultPoints read_environment() {
  auto environment = cluster::Environment::of_this_process();
  auto text = cluster::read_text(environment, "COHORT_FAULT");
  if (!text) return {};
  auto faults = parse_faults(*text);
  if (cluster::read_text(environment, "COHORT_TASK_TYPE").value_or("worker") != "worker") return {};
  auto index = cluster::read_number(environment, "COHORT_TASK_INDEX");
  if (!index) index = cluster::read_number(environment, "COHORT_RANK");
  int incarnation = cluster::read_number(environment, "COHORT_INCARNATION").value_or(0);
  return FaultPoints(std::move(faults), index.value_or(0), incarnation);
}

}  // namespace

FaultPoints::FaultPoints(std::vector<Fault> faults, int rank, int incarnation)
    : faults_(std::move(faults)) {
  std::erase_if(faults_, [&](const Fault& fault) {
    return (fault.rank && *fault.rank != rank) || fault.again != (incarnation > 0);
  });
  begun_ = std::make_unique<std::atomic<bool>[]>(faults_.size());
}

FaultPoints& FaultPoints::of_this_process() {
  static FaultPoints points = read_environment();
  return points;
}

void FaultPoints::on_cut(std::function<void(std::chrono::milliseconds)> cut) {
  cut_ = std::move(cut);
}

void FaultPoints::carry_out(std::string_view phase, std::int64_t step) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!is_at(fault, phase, step) || begun_[i].exchange(true)) continue;
    switch (fault.action) {
      case Fault::Action::kill:
        log::info("COHORT_FAULT: killed at {} of step {}", phase, step);
        kill_process();
      case Fault::Action::pause:
        log::info("COHORT_FAULT: stopped for {} ms at {} of step {}", fault.time.count(), phase,
                  step);
        pause_process(fault.time);
        break;
      case Fault::Action::cut:
        if (!cut_)
          throw InvalidInput(
              fmt::format("COHORT_FAULT: nothing can be cut off at {} of step {}", phase, step),
              {.advice = "`cut` is for the workers of an elastic job (cohort run --elastic)."});
        log::info("COHORT_FAULT: cut off for {} ms at {} of step {}", fault.time.count(), phase,
                  step);
        cut_(fault.time);
        break;
      case Fault::Action::slow:
        std::this_thread::sleep_for(fault.time);
        break;
    }
  }
}

}  // namespace cohort::membership
