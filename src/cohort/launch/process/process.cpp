#include "cohort/launch/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
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

// What the child needs, prepared before clone(): between that and exec only async-signal-safe calls
// are allowed, since other threads of the launcher may hold locks.
struct Prepared {
  const char* program;
  char** arguments;
  char** environment;
  int input, output, error;
  std::span<DescriptorMove> moves;
  int error_pipe;
  unsigned descriptors_end;  // all that it needs have lower numbers
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

// Sanitizers would follow a stack here that is none of theirs.
[[noreturn]] [[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void give_up(int error_pipe,
                                                                                int code) {
  [[maybe_unused]] ssize_t written = ::write(error_pipe, &code, sizeof code);
  ::_exit(127);
}

// A table of descriptors of its own; until here it was the launcher's, which stays as it is.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void unshare_descriptors(
    const Prepared& task) {
  if (::close_range(task.descriptors_end, ~0U, CLOSE_RANGE_UNSHARE) == 0) return;
  if (::unshare(CLONE_FILES) != 0) give_up(task.error_pipe, errno);  // Linux before 5.9
}

[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int become_task(void* prepared) {
  const auto& task = *static_cast<const Prepared*>(prepared);
  unshare_descriptors(task);
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
  give_up(error_pipe, errno);
}

// Not fork(), which copies the page tables of a launcher that grows with its job, nor vfork(), which
// copies its table of descriptors: starting all tasks would take the square of their number. The
// child uses this process's memory until execve() and changes nothing in it but the stack that it is
// given and `moves`; the calling thread waits until then.
pid_t clone_until_exec(Prepared& prepared) {
#ifdef __SANITIZE_THREAD__  // takes clone() for a fork() that is followed by threads
  const pid_t pid = ::vfork();
  if (pid == 0) become_task(&prepared);
  return pid;
#else
  constexpr std::size_t kStackBytes = 64 * 1024;
  const auto stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  return ::clone(become_task, stack.get() + kStackBytes,
                 CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &prepared);
#endif
}

// Puts descriptors into a window, where there is one, and takes them out again.
class LowPlacement {
 public:
  explicit LowPlacement(DescriptorWindow* window) : window_(window) {}
  ~LowPlacement() { clear(); }
  int put(int fd) { return window_ ? window_->put(fd) : fd; }
  void clear() {
    if (window_) window_->clear();
  }
  unsigned end() const { return window_ ? static_cast<unsigned>(window_->end()) : ~0U; }

 private:
  DescriptorWindow* window_;
};

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

pid_t spawn(const SpawnOptions& options, DescriptorWindow* window) {
  std::vector<std::string> arguments = options.command;
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  std::string program = options.program.string();

  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot create a pipe", errno);
  UniqueFd error_reader(fds[0]), error_writer(fds[1]);
  UniqueFd null_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_input) throw SystemError("cannot open '/dev/null'", errno);

  LowPlacement low(window);
  std::vector<DescriptorMove> moves;
  for (const auto& [fd, becomes] : options.inherited)
    moves.push_back({.from = low.put(fd), .to = task_fd_number(becomes)});
  auto argument_pointers = pointers(arguments);
  auto variable_pointers = pointers(variables);
  Prepared prepared{
      .program = program.c_str(),
      .arguments = argument_pointers.data(),
      .environment = variable_pointers.data(),
      .input = low.put(options.input >= 0 ? options.input : null_input.get()),
      .output = low.put(options.output),
      .error = low.put(options.error >= 0 ? options.error : options.output),
      .moves = moves,
      .error_pipe = low.put(error_writer.get()),
      .descriptors_end = low.end(),
      .file_limit = options.file_limit ? &*options.file_limit : nullptr,
      .parent = ::getpid(),
  };
  const pid_t pid = clone_until_exec(prepared);
  if (pid < 0)
    throw SystemError(fmt::format("cannot start another process for '{}'", program), errno,
                      {.advice = limits_advice()});

  ::setpgid(pid, pid);  // also from this side, so that kill_group() works at once
  error_writer.reset();
  low.clear();
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
