#include "cohort/engine/line_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::engine {
namespace {

constexpr int kHalfLineMs = 100;
constexpr std::size_t kLongestLine = 64 * 1024;

sigset_t relayed_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT})
    ::sigaddset(&signals, signal);
  return signals;
}

class Relay {
 public:
  Relay(pid_t child, UniqueFd output, UniqueFd signals,
        const std::function<void(std::string_view)>& sink)
      : child_(child),
        ended_(static_cast<int>(::syscall(SYS_pidfd_open, child, 0))),
        output_(std::move(output)),
        signals_(std::move(signals)),
        sink_(sink) {}

  RelayEnd run() {
    bool ended = false;
    while (!ended) {
      pollfd watched[] = {{output_.get(), POLLIN, 0},
                          {signals_.get(), POLLIN, 0},
                          {ended_.get(), POLLIN, 0},
                          {STDOUT_FILENO, 0, 0}};
      const int ready = ::poll(watched, 4, partial_.empty() ? -1 : kHalfLineMs);
      if (ready == 0) flush();
      if (ready <= 0) continue;
      if (watched[1].revents) pass_signal_on();
      if (watched[3].revents & (POLLERR | POLLHUP)) end_all();
      ended = (watched[2].revents & POLLIN) != 0;
      if (watched[0].revents && !read_some()) break;
    }
    while (read_some()) continue;  // what the child left, not what its children still write
    RelayEnd end{.told_to_end = told_to_end_};
    while (::waitpid(child_, &end.status, 0) < 0 && errno == EINTR) continue;
    return end;
  }

 private:
  // False: there is nothing now, or no process writes any more.
  bool read_some() {
    char bytes[64 * 1024];
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) {
      flush();
      return false;
    }
    partial_.append(bytes, static_cast<std::size_t>(count));
    const std::size_t end = partial_.rfind('\n');
    if (end != std::string::npos) {
      sink_(std::string_view(partial_).substr(0, end + 1));
      partial_.erase(0, end + 1);
    }
    if (partial_.size() > kLongestLine) flush();
    return true;
  }

  void flush() {
    if (!partial_.empty()) sink_(partial_);
    partial_.clear();
  }

  void pass_signal_on() {
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const auto signal = static_cast<int>(info.ssi_signo);
    told_to_end_ = told_to_end_ || signal == SIGTERM || signal == SIGINT;
    ::kill(child_, signal);
  }

  [[noreturn]] void end_all() {
    ::kill(child_, SIGKILL);
    if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
    end_like(SIGKILL);
  }

  pid_t child_;
  UniqueFd ended_;   // readable when the child has
  UniqueFd output_;  // non-blocking
  UniqueFd signals_;
  const std::function<void(std::string_view)>& sink_;
  std::string partial_;
  bool told_to_end_ = false;
};

}  // namespace

void write_to_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void end_like(int status) {
  if (WIFSIGNALED(status)) {
    ::signal(WTERMSIG(status), SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::raise(WTERMSIG(status));
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

std::optional<RelayEnd> relay_lines(const RelayOptions& options,
                                    const std::function<void(std::string_view)>& sink) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot create a pipe", errno);
  UniqueFd reader(fds[0]), writer(fds[1]);
  const sigset_t relayed = relayed_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &relayed, &before);  // none gets lost in between
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("cannot start another process", errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    if (options.own_group) ::setpgid(0, 0);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::dup2(writer.get(), STDOUT_FILENO);
    if (options.errors) ::dup2(writer.get(), STDERR_FILENO);
    return std::nullopt;
  }
  writer.reset();
  ::signal(SIGPIPE, SIG_IGN);  // run() sees it
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  UniqueFd signals(::signalfd(-1, &relayed, SFD_CLOEXEC));
  return Relay(child, std::move(reader), std::move(signals), sink).run();
}

}  // namespace cohort::engine
