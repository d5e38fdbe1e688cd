#include "cohort/launch/task/host_task.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/log/reader_output.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/text.h"
#include "cohort/launch/ending/remote_last_word.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/process/guard.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/process/process.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kLongestTask = 16 << 20;
constexpr std::size_t kLongestLine = 64;
constexpr std::chrono::seconds kHostLeftoverTime{5};
// Marks the processes of this task among those of the job, of which this host may have several.
constexpr const char* kMarkVariable = "COHORT_HOST_TASK";

// Its descriptor may be the program's output as well (sshd gives one socket for both), which must
// stay blocking: so it reads only what has been announced, once.
class LineInput {
 public:
  explicit LineInput(int fd) : fd_(fd) {}

  // Call it when the descriptor is readable. False at the end of the input.
  bool read() {
    char buffer[16 * 1024];
    ssize_t count = ::read(fd_, buffer, sizeof buffer);
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    text_.append(buffer, static_cast<std::size_t>(count));
    wipe(buffer, sizeof buffer);
    return count > 0;
  }
  std::optional<std::string> next_line() {
    std::size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    wipe(text_.data(), end);
    text_.erase(0, end + 1);
    return line;
  }
  std::size_t waiting() const { return text_.size(); }
  int fd() const { return fd_; }

 private:
  int fd_;
  std::string text_;
};

RemoteTask receive_task(LineInput& input, Deadline deadline) {
  constexpr const char* kAdvice = "`cohort run` starts this command by itself on other hosts.";
  while (true) {
    if (auto line = input.next_line()) {
      RemoteTask task = parse_remote_task(*line);
      wipe(line->data(), line->size());
      return task;
    }
    pollfd ready{.fd = input.fd(), .events = POLLIN, .revents = 0};
    if (deadline.expired() || input.waiting() > kLongestTask)
      throw InvalidInput("no task came on standard input", {.advice = kAdvice});
    if (::poll(&ready, 1, deadline.poll_timeout_ms()) > 0 && !input.read())
      throw InvalidInput("standard input ended before a task came", {.advice = kAdvice});
  }
}

std::string new_mark() {
  std::uint64_t number = 0;
  fill_random(&number, sizeof number);
  return fmt::format("{:016x}", number);
}

sigset_t relayed_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&set, signal);
  return set;
}

class HostTask {
 public:
  HostTask(RemoteTask task, LineInput& input, const HostTaskOptions& options)
      : task_(std::move(task)),
        options_(options),
        input_(input),
        mark_(new_mark()),
        guard_(mark_, {}, kMarkVariable) {
    adopt_orphans();
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t set = relayed_signals();
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw SystemError("cannot listen for signals", errno);
  }

  int run() {
    start();
    loop_.add(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); });
    loop_.add(input_.fd(), EPOLLIN, [this](std::uint32_t) { on_input(); });
    expect_a_sign();
    take_lines();
    check_program();
    while (!exit_) loop_.run_once(Deadline::never());
    pass_on_last_word();
    return exit_->shell_code();
  }

 private:
  void start() {
    std::error_code code;
    std::filesystem::current_path(task_.folder, code);
    if (code)
      throw InvalidInput(
          fmt::format("the folder '{}', from which the job was started, cannot be "
                      "entered on this host: {}",
                      task_.folder.string(), code.message()),
          {.host = host_name(), .advice = "Start the job in a folder that every host has."});
    auto environment = cluster::Environment::of_this_process();
    for (const auto& name : task_.removed) environment.erase(name);
    for (const auto& [name, value] : task_.environment) environment[name] = value;
    environment.try_emplace("OMP_NUM_THREADS",
                            std::to_string(std::max(1, usable_cores() / task_.tasks_on_host)));
    environment[kMarkVariable] = mark_;
    environment[kLastWordVariable] = std::to_string(task_fd_number(TaskFd::last_word));
    SpawnOptions spawn_options{.command = task_.command,
                               .output = options_.output,
                               .inherited = {{last_word_.fd(), TaskFd::last_word}}};
    UniqueFd secret;
    if (task_.secret) {
      secret = task_.secret->to_memfd();
      environment["COHORT_SECRET_FD"] = std::to_string(task_fd_number(TaskFd::secret));
      spawn_options.inherited.push_back({secret.get(), TaskFd::secret});
      task_.secret.reset();
    }
    try {
      spawn_options.program = find_program(
          task_.command.front(), environment.find_value("PATH").value_or("/usr/bin:/bin"));
    } catch (const InvalidInput& error) {
      throw InvalidInput(error.message(), {.task = task_.name,
                                           .host = host_name(),
                                           .advice = "It must lie at the same place on every "
                                                     "host."});
    }
    spawn_options.environment = std::move(environment);
    program_ = spawn(spawn_options);
    guard_.watch(program_);
  }

  void on_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) relay(static_cast<int>(info.ssi_signo));
    check_program();
  }

  void check_program() {
    siginfo_t info{};
    const auto pid = static_cast<id_t>(program_);
    if (!exit_ && ::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
      kill_group(program_, SIGKILL);
      guard_.forget(program_);
      ::waitpid(program_, nullptr, 0);
      end_leftovers(mark_, guard_.pid(), Deadline::after(kHostLeftoverTime), kMarkVariable);
      exit_.emplace();
      (info.si_code == CLD_EXITED ? exit_->code : exit_->signal) = info.si_status;
    }
    std::set<pid_t> known{guard_.pid()};
    if (!exit_) known.insert(program_);
    reap_orphans(known);
  }

  // No process writes to the output any more. A launcher that was lost does not read it.
  void pass_on_last_word() {
    const LastWord word =
        last_word_.read(program_, exit_->signal ? std::nullopt : std::optional<int>(exit_->code));
    if (word.kind == LastWord::Kind::none || lost_ || task_.last_word_mark.empty()) return;
    write_to_reader(options_.output, frame_last_word(task_.last_word_mark, word),
                    /*drop_if_blocked=*/false);
  }

  void on_input() {
    if (!input_.read()) return on_lost("the connection to the launcher ended");
    expect_a_sign();
    take_lines();
    if (input_.waiting() > kLongestLine) on_lost("the launcher sends what is no line");
  }

  void take_lines() {
    while (auto line = input_.next_line()) {
      constexpr std::string_view kSignal = "signal ";
      if (!line->starts_with(kSignal)) continue;
      auto number = parse_unsigned(std::string_view(*line).substr(kSignal.size()));
      if (number && *number > 0 && *number < NSIG) relay(static_cast<int>(*number));
    }
  }

  void relay(int signal) {
    if (!exit_) kill_group(program_, signal);
  }

  void expect_a_sign() {
    loop_.cancel(silence_timer_);
    silence_timer_ = loop_.call_after(options_.silence, [this] {
      on_lost(fmt::format("nothing has been heard of the launcher for {:g} s",
                          std::chrono::duration<double>(options_.silence).count()));
    });
  }

  // The output may lead nowhere by now, and must not hold this process up.
  void on_lost(const std::string& why) {
    lost_ = true;
    loop_.cancel(silence_timer_);
    loop_.remove(input_.fd());
    log::drop_if_blocked();
    log::warning("{}: ending {} (pid {}) on {}", why, task_.name, program_, host_name());
    relay(SIGTERM);
    relay(SIGCONT);  // a suspended program could not answer
    loop_.call_after(task_.grace, [this] { relay(SIGKILL); });
  }

  RemoteTask task_;
  HostTaskOptions options_;
  LineInput& input_;
  std::string mark_;
  Guard guard_;
  EventLoop loop_;
  UniqueFd signals_;
  LastWordOwner last_word_;
  pid_t program_ = -1;
  bool lost_ = false;  // the launcher
  std::optional<ExitStatus> exit_;
  EventLoop::TimerId silence_timer_ = 0;
};

}  // namespace

int run_host_task(const HostTaskOptions& options) {
  LineInput input(options.input);
  RemoteTask task = receive_task(input, Deadline::after(options.silence));
  return HostTask(std::move(task), input, options).run();
}

}  // namespace cohort::launch
