#include "cohort/launch/process/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with processes that fork while being killed

enum Verb : int { kWatch, kForget, kDismiss };

struct Message {
  int verb;
  pid_t group;
};

[[noreturn]] void stand_guard(int input, const std::string& job,
                              const std::filesystem::path& control, const char* variable) {
  ::setsid();  // a Ctrl-C at the terminal is not for the guard
  ::prctl(PR_SET_NAME, kGuardName);
  ::prctl(PR_SET_PDEATHSIG, 0);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(signal, SIG_IGN);
  // Nothing of the launcher's may be held open: a pipe's reader waits for its last writer.
  ::dup2(input, 0);
  ::close_range(1, ~0U, 0);
  // A guard that takes the place of another is started with the launcher's signals blocked.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  std::set<pid_t> groups;
  Message message;
  while (true) {
    ssize_t count = ::read(0, &message, sizeof message);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof message) break;  // end of file: the launcher is gone
    if (message.verb == kDismiss) ::_exit(0);
    if (message.verb == kWatch)
      groups.insert(message.group);
    else
      groups.erase(message.group);
  }
  if (!control.empty()) ::unlink(control.c_str());
  for (pid_t group : groups) kill_group(group, SIGKILL);
  end_leftovers(job, /*spared=*/-1, Deadline::after(kPatience), variable);
  ::_exit(0);
}

}  // namespace

Guard::Guard(std::string job, std::filesystem::path control, const char* variable)
    : job_(std::move(job)), control_(std::move(control)), variable_(variable) {
  start();
}

void Guard::start() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot create a pipe", errno);
  UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0)
    throw SystemError("cannot start the guard process", errno, {.advice = limits_advice()});
  if (pid == 0) stand_guard(reader.get(), job_, control_, variable_);
  pipe_ = std::move(writer);
  pid_ = pid;
}

bool Guard::is_dead() {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0 ||
         info.si_pid != 0;
}

void Guard::replace_if_dead() {
  if (is_lost_ || !is_dead()) return;
  const pid_t dead = std::exchange(pid_, -1);
  try {
    start();
    for (pid_t group : groups_) tell(kWatch, group);
    log::warning("the guard of this job (pid {}) was killed; another one (pid {}) took its place",
                 dead, pid_);
  } catch (const SystemError& error) {
    is_lost_ = true;
    log::warning(
        "the guard of this job (pid {}) was killed, and there is no other: {}; if this "
        "launcher is killed too, processes that left their task's group stay behind",
        dead, error.what());
  }
}

Guard::~Guard() {
  tell(kDismiss, 0);
  pipe_.reset();
  while (pid_ > 0 && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t group) {
  groups_.insert(group);
  tell(kWatch, group);
}

void Guard::forget(pid_t group) {
  groups_.erase(group);
  tell(kForget, group);
}

void Guard::tell(int verb, pid_t group) {
  Message message{verb, group};
  // A guard that was killed cannot be told; the kernel's parent-death signal still holds.
  [[maybe_unused]] ssize_t written = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace cohort::launch
