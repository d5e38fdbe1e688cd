#include "cohort/engine/line_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/process/process.h"

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

void write_whole(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // mpirun is gone, and ends the rank
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

class Relay {
 public:
  Relay(pid_t child, UniqueFd output, UniqueFd signals)
      : child_(child), output_(std::move(output)), signals_(std::move(signals)) {}

  bool told_to_end() const { return told_to_end_; }

  // Until the last writer is gone.
  void run() {
    for (;;) {
      pollfd watched[] = {{output_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      const int ready = ::poll(watched, 2, partial_.empty() ? -1 : kHalfLineMs);
      if (ready == 0) flush();
      if (ready <= 0) continue;
      if (watched[1].revents) pass_signal_on();
      if (watched[0].revents && !read_some()) return;
    }
  }

 private:
  bool read_some() {
    char bytes[16 * 1024];
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) {
      flush();
      return false;
    }
    partial_.append(bytes, static_cast<std::size_t>(count));
    const std::size_t end = partial_.rfind('\n');
    if (end != std::string::npos) {
      write_whole(std::string_view(partial_).substr(0, end + 1));
      partial_.erase(0, end + 1);
    }
    if (partial_.size() > kLongestLine) flush();
    return true;
  }

  void flush() {
    write_whole(partial_);
    partial_.clear();
  }

  void pass_signal_on() {
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const auto signal = static_cast<int>(info.ssi_signo);
    told_to_end_ = told_to_end_ || signal == SIGTERM || signal == SIGINT;
    ::kill(child_, signal);
  }

  pid_t child_;
  UniqueFd output_;
  UniqueFd signals_;
  std::string partial_;
  bool told_to_end_ = false;
};

std::string failure_line(std::string_view rank, int status) {
  if (WIFSIGNALED(status))
    return fmt::format("rank {} was killed by signal {} ({})\n", rank, WTERMSIG(status),
                       launch::signal_name(WTERMSIG(status)));
  return fmt::format("rank {} ended with exit code {}\n", rank, WEXITSTATUS(status));
}

int wait_for_end(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

[[noreturn]] void end_like(int status) {
  if (WIFSIGNALED(status)) {
    ::signal(WTERMSIG(status), SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::raise(WTERMSIG(status));
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

void relay_whole_lines(std::string_view rank) {
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
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    return;
  }
  writer.reset();
  UniqueFd signals(::signalfd(-1, &relayed, SFD_CLOEXEC));
  Relay relay(child, std::move(reader), std::move(signals));
  relay.run();
  const int status = wait_for_end(child);
  if (status != 0 && !relay.told_to_end()) write_whole(failure_line(rank, status));
  end_like(status);
}

}  // namespace cohort::engine
