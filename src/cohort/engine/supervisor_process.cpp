#include "cohort/engine/supervisor_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/engine/attempt_folder.h"

namespace cohort::engine {
namespace {

constexpr std::chrono::seconds kClaimTime{2};

struct Streams {
  int null, answer, log;
};

// In the child of a program that may have threads: only what is safe there. Ends it.
[[noreturn]] void become_supervisor(const Streams& streams, char* const* words) {
  ::setsid();
  if (const pid_t child = ::fork(); child != 0) ::_exit(child < 0 ? errno : 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  if (::chdir("/") == 0 && ::dup2(streams.null, STDIN_FILENO) >= 0 &&
      ::dup2(streams.answer, STDOUT_FILENO) >= 0 && ::dup2(streams.log, STDERR_FILENO) >= 0) {
    ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
    ::execv(words[0], words);
  }
  ::_exit(127);
}

// Waits for one byte or the end.
void await(int fd, Deadline deadline) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, deadline.poll_timeout_ms()) < 0 && errno == EINTR) continue;
}

UniqueFd opened(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw SystemError(fmt::format("cannot open '{}'", path.string()), errno);
  return fd;
}

}  // namespace

void start_supervisor(const std::filesystem::path& cohort, const std::filesystem::path& folder) {
  const UniqueFd null = opened("/dev/null", O_RDWR);
  const UniqueFd log =
      opened(AttemptFolder{folder}.supervisor_log(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  const UniqueFd answer(ends[0]);
  UniqueFd answering(ends[1]);
  std::string program = cohort.string(), command = "attempt", place = folder.string();
  char* const words[] = {program.data(), command.data(), place.data(), nullptr};
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("cannot start a supervisor", errno);
  if (child == 0) become_supervisor({null.get(), answering.get(), log.get()}, words);
  answering.reset();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw SystemError("cannot start a supervisor", WEXITSTATUS(status));
  await(answer.get(), Deadline::after(kClaimTime));
}

void ask_to_stop(const std::string& identity) {
  const auto words = split(identity, ' ');
  const auto pid = words.size() == 4 ? parse_unsigned(words[2]) : std::nullopt;
  if (!pid) return;
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0)));
  if (!process && (errno == ESRCH || errno == EINVAL)) return;
  if (!process) throw SystemError("cannot reach the supervisor of an attempt", errno);
  // Whatever has that number from here on, `process` is what had it when it was opened.
  if (process_identity(static_cast<pid_t>(*pid)) != identity) return;
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0 && errno != ESRCH)
    throw SystemError("cannot stop the supervisor of an attempt", errno);
}

std::filesystem::path this_program() {
  std::error_code code;
  auto path = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) throw SystemError("cannot find the program that runs now", code.value());
  return path;
}

}  // namespace cohort::engine
