#include "cohort/launch/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>

#include "cohort/base/error.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/unique_fd.h"

namespace cohort::launch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct DescriptorMove {
  int from;
  int to;
};

// What the child needs, prepared before fork(): between fork and exec only async-signal-safe calls
// are allowed, since other threads of the launcher may hold locks.
struct Prepared {
  const char* program;
  char** arguments;
  char** environment;
  int input, output, error;
  std::span<DescriptorMove> moves;
  int error_pipe;
  const rlimit* file_limit;
  pid_t parent;
};

// `fd`, or a duplicate of it at a number that nothing is to be moved to. What it leaves behind
// keeps its number taken, so the next try finds another.
int out_of_the_way(int fd, std::span<const DescriptorMove> moves) {
  auto is_taken = [&](const DescriptorMove& move) { return move.to == fd; };
  while (fd >= 0 && std::any_of(moves.begin(), moves.end(), is_taken))
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return fd;
}

[[noreturn]] void become_task(const Prepared& task) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != task.parent) ::_exit(127);  // the launcher died before prctl took effect
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // The launcher ignores these; what nohup ignores stays ignored.
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  // Not everything that the launcher opens is its own code's to mark close-on-exec.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::dup2(task.input, STDIN_FILENO);
  ::dup2(task.output, STDOUT_FILENO);
  ::dup2(task.error, STDERR_FILENO);
  const int error_pipe = out_of_the_way(task.error_pipe, task.moves);
  for (auto& move : task.moves) move.from = out_of_the_way(move.from, task.moves);
  for (const auto& move : task.moves) ::dup2(move.from, move.to);
  if (task.file_limit) ::setrlimit(RLIMIT_NOFILE, task.file_limit);
  ::execve(task.program, task.arguments, task.environment);
  int code = errno;
  [[maybe_unused]] ssize_t written = ::write(error_pipe, &code, sizeof code);
  ::_exit(127);
}

[[noreturn]] void throw_exec_error(const std::string& program, int code) {
  if (code == ENOEXEC)
    throw InvalidInput(fmt::format("program '{}' is neither a binary for this machine nor a script "
                                   "with a #! line",
                                   program),
                       {.advice = "Name the interpreter, as in: cohort run -- python3 script.py"});
  if (code == ENOENT)
    throw InvalidInput(fmt::format("program '{}' cannot be started: the interpreter named in its "
                                   "first line does not exist",
                                   program),
                       {.advice = "Mend its #! line."});
  if (code == E2BIG)
    throw InvalidInput(
        fmt::format("the command line and environment of '{}' are too long", program));
  throw SystemError(fmt::format("cannot start '{}'", program), code);
}

}  // namespace

int task_fd_number(TaskFd which) {
  constexpr int kPreferred = 197;
  rlimit limit{};
  int highest = kPreferred;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= kPreferred)
    highest = static_cast<int>(limit.rlim_cur) - 1;
  return highest - static_cast<int>(which);
}

pid_t spawn(const SpawnOptions& options) {
  std::vector<std::string> arguments = options.command;
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  std::string program = options.program.string();

  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot create a pipe", errno);
  UniqueFd error_reader(fds[0]), error_writer(fds[1]);
  UniqueFd null_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_input) throw SystemError("cannot open '/dev/null'", errno);

  std::vector<DescriptorMove> moves;
  for (const auto& [fd, becomes] : options.inherited)
    moves.push_back({.from = fd, .to = task_fd_number(becomes)});
  auto argument_pointers = pointers(arguments);
  auto variable_pointers = pointers(variables);
  Prepared prepared{
      .program = program.c_str(),
      .arguments = argument_pointers.data(),
      .environment = variable_pointers.data(),
      .input = options.input >= 0 ? options.input : null_input.get(),
      .output = options.output,
      .error = options.error >= 0 ? options.error : options.output,
      .moves = moves,
      .error_pipe = error_writer.get(),
      .file_limit = options.file_limit ? &*options.file_limit : nullptr,
      .parent = ::getpid(),
  };
  // Not fork(), which copies the page tables of a launcher that grows with its job: starting all
  // tasks would take the square of their number. The child uses this process's memory until
  // execve() and changes nothing in it but `moves`.
  pid_t pid = ::vfork();
  if (pid < 0)
    throw SystemError(fmt::format("cannot start another process for '{}'", program), errno,
                      {.advice = limits_advice()});
  if (pid == 0) become_task(prepared);

  ::setpgid(pid, pid);  // also from this side, so that kill_group() works at once
  error_writer.reset();
  int code = 0;
  ssize_t count;
  do {
    count = ::read(error_reader.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof code) {
    ::waitpid(pid, nullptr, 0);
    throw_exec_error(program, code);
  }
  return pid;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string to_string(const ExitStatus& status) {
  if (status.signal == 0) return fmt::format("exit code {}", status.code);
  return fmt::format("signal {} ({})", status.signal, signal_name(status.signal));
}

void kill_group(pid_t group, int signal) {
  if (group > 1) ::kill(-group, signal);
}

}  // namespace cohort::launch
