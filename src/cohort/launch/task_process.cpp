#include "cohort/launch/task_process.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/files.h"
#include "cohort/base/log.h"
#include "cohort/launch/root_cause.h"

namespace cohort::launch {
namespace {

constexpr int kPipeBytes = 256 * 1024;         // lets a burst of output pass without a stall
constexpr size_t kBytesPerTurn = 1024 * 1024;  // then the other tasks get theirs

ExitStatus from_siginfo(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status};
  return {.signal = info.si_status};
}

}  // namespace

TaskProcess::TaskProcess(PlannedTask plan, int attempt, bool keeps, EventLoop& loop, Screen& screen,
                         Guard& guard)
    : plan_(std::move(plan)),
      loop_(loop),
      screen_(screen),
      guard_(guard),
      record_{.id = plan_.role.task, .host = plan_.host, .attempt = attempt, .log = plan_.log},
      log_(plan_.log),
      splitter_([this](const LineSplitter::Line& line) {
        screen_.print(record_.host, record_.id, line);
        last_lines_.add(line.text, line.is_redraw);
      }) {
  using Content = KeepMemoryOwner::Content;
  if (keeps)
    keep_.emplace(id().type == cluster::TaskType::ps ? Content::mark_and_state : Content::mark);
}

TaskProcess::~TaskProcess() {
  close_output();
  kill_and_reap();
}

void TaskProcess::kill_and_reap() {
  if (!alive()) return;
  kill_group(record_.pid, SIGKILL);
  guard_.forget(record_.pid);
  while (::waitpid(record_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void TaskProcess::start(const StartOptions& options) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    throw SystemError(fmt::format("cannot create the output pipe of {}", to_string(id())), errno,
                      {.advice = "Raise the limit on open files: ulimit -n"});
  output_.reset(fds[0]);
  UniqueFd writer(fds[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(output_.get(), F_SETPIPE_SZ, kPipeBytes);  // a refusal leaves the default size
  std::vector<InheritedFd> inherited{{options.secret, TaskFd::secret}};
  if (keep_) inherited.push_back({keep_->mark(), TaskFd::restart_mark});
  if (keep_ && keep_->state() >= 0) inherited.push_back({keep_->state(), TaskFd::keep_state});
  started_ = std::chrono::steady_clock::now();
  record_.pid = spawn({.program = options.program,
                       .command = plan_.command,
                       .environment = plan_.environment,
                       .output = writer.get(),
                       .inherited = std::move(inherited),
                       .file_limit = options.file_limit});
  guard_.watch(record_.pid);
  loop_.add(output_.get(), EPOLLIN, [this](std::uint32_t) { read_output(); });
  record_.started = utc_timestamp();
}

void TaskProcess::start_again(const StartOptions& options) {
  const TaskRecord last = record_;
  record_.exit.reset();
  record_.pid = -1;
  record_.ended.clear();
  record_.memory_evidence.clear();
  record_.last_lines.clear();
  ++record_.restarts;
  try {
    start(options);
  } catch (...) {
    close_output();
    kill_and_reap();
    record_ = last;
    throw;
  }
  last_lines_ = {};
  write_log(fmt::format("{}--- cohort: pid {} {}; started again alone as pid {} (restart {}) ---\n",
                        log_ends_with_a_line_ ? "" : "\n", last.pid, how_it_ended(last),
                        record_.pid, record_.restarts));
}

void TaskProcess::read_output() {
  char buffer[65536];
  size_t taken = 0;
  while (output_ && taken < kBytesPerTurn) {
    ssize_t count = ::read(output_.get(), buffer, sizeof buffer);
    if (count > 0) {
      take({buffer, static_cast<size_t>(count)});
      taken += static_cast<size_t>(count);
    } else if (count == 0) {
      close_output();  // the task closed its output; it may well go on
    } else if (errno != EINTR) {
      break;
    }
  }
  screen_.flush();
}

void TaskProcess::close_output() {
  if (!output_) return;
  splitter_.finish();
  screen_.finish(id());
  screen_.flush();
  loop_.remove(output_.get());
  output_.reset();
}

void TaskProcess::take(std::string_view bytes) {
  write_log(bytes);
  splitter_.feed(bytes);
}

void TaskProcess::write_log(std::string_view bytes) {
  log_ends_with_a_line_ = bytes.ends_with('\n');
  if (log_.write(bytes) == TaskLog::Result::first_failure)
    log::warning("cannot write the log of {} ('{}'): {}; the job goes on, its log will have gaps",
                 to_string(id()), log_.path().string(), log_.error());
}

TaskProcess::Change TaskProcess::check() {
  if (!alive()) return Change::none;
  auto pid = static_cast<id_t>(record_.pid);
  siginfo_t info{};
  // WNOWAIT leaves the dead leader in the process table: its number cannot be given to a stranger
  // before the rest of its group has been killed.
  if (::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    finish(from_siginfo(info));
    return Change::exited;
  }
  info = {};
  if (::waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
    record_.suspended_by = info.si_code == CLD_STOPPED ? info.si_status : 0;
    return record_.suspended_by ? Change::suspended : Change::resumed;
  }
  return Change::none;
}

void TaskProcess::finish(const ExitStatus& status) {
  kill_group(record_.pid, SIGKILL);
  guard_.forget(record_.pid);
  rusage usage{};
  while (::wait4(record_.pid, nullptr, 0, &usage) < 0 && errno == EINTR) {
  }
  // Whoever could still write has been killed, unless it left the process group and may write for
  // ever: one turn takes more than the pipe can hold, then its end is closed.
  static_assert(kBytesPerTurn > kPipeBytes);
  read_output();
  close_output();
  record_.exit = status;
  record_.ended = utc_timestamp();
  record_.ran_for = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  record_.peak_memory_kib = std::max(record_.peak_memory_kib, usage.ru_maxrss);
  record_.last_lines = last_lines_.lines();
}

void TaskProcess::signal(int number) {
  if (alive()) kill_group(record_.pid, number);
}

}  // namespace cohort::launch
