#include "cohort/launch/task/task_process.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/ending/root_cause.h"

namespace cohort::launch {
namespace {

constexpr int kPipeBytes = 256 * 1024;         // lets a burst of output pass without a stall
constexpr size_t kBytesPerTurn = 1024 * 1024;  // then the other tasks get theirs
constexpr int kRemoteShellFailed = 255;        // ssh's own code: no connection, or none any more

ExitStatus from_siginfo(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status};
  return {.signal = info.si_status};
}

// What `cohort host-task` says of a program's end, which no remote shell could carry otherwise.
ExitStatus from_host_task(const ExitStatus& status) {
  constexpr int kSignalCode = 128;
  if (status.code > kSignalCode && status.code < kSignalCode + NSIG)
    return {.signal = status.code - kSignalCode};
  return status;
}

}  // namespace

TaskProcess::TaskProcess(Identity identity, EventLoop& loop, Screen& screen, Guard& guard)
    : loop_(loop),
      screen_(screen),
      guard_(guard),
      record_{.id = identity.id,
              .host = std::move(identity.host),
              .attempt = identity.attempt,
              .log = std::move(identity.log)},
      log_(record_.log),
      splitter_([this](const LineSplitter::Line& line) {
        screen_.print(record_.host, record_.id, line);
        last_lines_.add(line.text, line.is_redraw);
        error_line_.add(line.text, line.is_redraw);
      }) {
  using Content = RestartStateOwner::Content;
  if (identity.keeps_state)
    keep_.emplace(id().type == cluster::TaskType::ps ? Content::flag_and_state : Content::flag);
}

TaskProcess::~TaskProcess() {
  close_output();
  kill_and_reap();
}

void TaskProcess::kill_and_reap() {
  link_.reset();
  if (!alive()) return;
  kill_group(record_.pid, SIGKILL);
  guard_.forget(record_.pid);
  while (::waitpid(record_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void TaskProcess::spawn_as(const PlannedTask& plan, const StartOptions& options) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    throw SystemError(fmt::format("cannot create the output pipe of {}", to_string(id())), errno,
                      {.advice = "Raise the limit on open files: ulimit -n"});
  output_.reset(fds[0]);
  UniqueFd writer(fds[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(output_.get(), F_SETPIPE_SZ, kPipeBytes);  // a refusal leaves the default size
  UniqueFd input;                                    // of a remote shell
  last_word_.reset();
  remote_word_.reset();
  SpawnOptions process =
      plan.remote_command.empty() ? as_planned(plan, options) : on_its_host(plan, options, input);
  process.output = writer.get();
  process.file_limit = options.file_limit;
  started_ = std::chrono::steady_clock::now();
  record_.pid = spawn(process, options.window);
  guard_.watch(record_.pid);
  loop_.add(output_.get(), EPOLLIN, [this](std::uint32_t) { read_output(); });
  record_.started = utc_timestamp();
}

SpawnOptions TaskProcess::as_planned(const PlannedTask& plan, const StartOptions& options) {
  last_word_.emplace();
  std::vector<InheritedFd> inherited{{options.secret, TaskFd::secret},
                                     {last_word_->fd(), TaskFd::last_word}};
  if (keep_) inherited.push_back({keep_->flag(), TaskFd::restart_flag});
  if (keep_ && keep_->state() >= 0) inherited.push_back({keep_->state(), TaskFd::keep_state});
  return {.program = options.program,
          .command = plan.command,
          .environment = plan.environment,
          .inherited = std::move(inherited)};
}

SpawnOptions TaskProcess::on_its_host(const PlannedTask& plan, const StartOptions& options,
                                      UniqueFd& input) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    throw SystemError(fmt::format("cannot create the input pipe of {}", to_string(id())), errno);
  input.reset(fds[0]);
  UniqueFd writer(fds[1]);
  std::error_code gone;
  RemoteTask task{.name = to_string(id()),
                  .command = plan.command,
                  .environment = plan.added,
                  .removed = plan.removed,
                  .tasks_on_host = plan.role.local_size,
                  .folder = std::filesystem::current_path(gone),
                  .grace = options.grace,
                  .secret = Secret::from_fd(options.secret),
                  .last_word_mark = new_last_word_mark()};
  if (gone)
    throw InvalidInput("the current folder, in which tasks on other hosts would run, is gone",
                       {.advice = "Start the job in a folder that every host has."});
  for (const char* name : {kRestartFlagVariable, kRestartStateVariable})
    task.environment.erase(name);  // memory that this machine keeps
  remote_word_.emplace(task.last_word_mark);
  link_.emplace(std::move(writer), to_line(task));
  return {.program = find_program(plan.remote_command.front(),
                                  plan.environment.find_value("PATH").value_or("/usr/bin:/bin")),
          .command = plan.remote_command,
          .environment = plan.environment,
          .input = input.get()};
}

void TaskProcess::start(const PlannedTask& plan, const StartOptions& options) {
  COHORT_CHECK(!alive(), "{} runs already", to_string(id()));
  const TaskRecord last = record_;
  record_ = {.id = last.id,
             .host = plan.host,
             .attempt = last.attempt,
             .restarts = plan.role.incarnation,
             .log = last.log,
             .peak_memory_kib = last.peak_memory_kib};
  try {
    spawn_as(plan, options);
  } catch (...) {
    close_output();
    kill_and_reap();
    record_ = last;
    throw;
  }
  if (!last.exit) return;
  last_lines_ = {};
  error_line_ = {};
  write_log(fmt::format("{}--- cohort: pid {} {}; started again alone as pid {} (restart {}) ---\n",
                        log_ends_with_a_line_ ? "" : "\n", last.pid,
                        last.exit->success() ? "ended" : how_it_ended(last), record_.pid,
                        record_.restarts));
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
  if (remote_word_) take_output(remote_word_->finish());
  splitter_.finish();
  screen_.finish(id());
  screen_.flush();
  loop_.remove(output_.get());
  output_.reset();
}

void TaskProcess::take(std::string_view bytes) {
  take_output(remote_word_ ? remote_word_->feed(bytes) : bytes);
}

void TaskProcess::take_output(std::string_view bytes) {
  if (bytes.empty()) return;
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
  siginfo_t news{};  // of most tasks there are none: one call for each of thousands is enough
  if (::waitid(P_PID, pid, &news, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) != 0 ||
      news.si_pid == 0)
    return Change::none;
  if (auto exit = peek_exit()) {
    out_of_sight_ = may_still_run();
    finish(*exit);
    return Change::exited;
  }
  siginfo_t info{};
  if (::waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
    record_.suspended_by = info.si_code == CLD_STOPPED ? info.si_status : 0;
    return record_.suspended_by ? Change::suspended : Change::resumed;
  }
  return Change::none;
}

std::optional<ExitStatus> TaskProcess::peek_exit() const {
  auto status = peek_process();
  return status && is_remote() ? from_host_task(*status) : status;
}

bool TaskProcess::may_still_run() const {
  if (!is_remote()) return false;
  if (!alive()) return out_of_sight_;
  auto status = peek_process();
  return status && (status->signal != 0 || status->code == kRemoteShellFailed);
}

std::optional<ExitStatus> TaskProcess::peek_process() const {
  if (!alive()) return std::nullopt;
  siginfo_t info{};
  // WNOWAIT leaves the dead leader in the process table: its number cannot be given to a stranger
  // before the rest of its group has been killed.
  if (::waitid(P_PID, static_cast<id_t>(record_.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return std::nullopt;
  return from_siginfo(info);
}

void TaskProcess::finish(const ExitStatus& status) {
  link_.reset();
  kill_group(record_.pid, SIGKILL);
  guard_.forget(record_.pid);
  rusage usage{};
  while (::wait4(record_.pid, nullptr, 0, &usage) < 0 && errno == EINTR) {
  }
  // A process that could still write has been killed, unless it left the group and may write for
  // ever: one turn takes more than the pipe can hold, then its end is closed.
  static_assert(kBytesPerTurn > kPipeBytes);
  read_output();
  close_output();
  record_.exit = status;
  record_.ended = utc_timestamp();
  record_.ran_for = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  if (!is_remote())  // else the remote shell's
    record_.peak_memory_kib = std::max(record_.peak_memory_kib, usage.ru_maxrss);
  record_.last_lines = last_lines_.lines();
  record_.error_line = error_line_.text(status);
  if (remote_word_)
    record_.last_word = remote_word_->word();
  else if (last_word_)
    record_.last_word = last_word_->read(
        record_.pid, status.signal ? std::nullopt : std::optional<int>(status.code));
}

void TaskProcess::signal(int number) {
  if (!alive()) return;
  if (link_) link_->signal(number);
  // A remote shell gets KILL alone: its host may be out of reach, and notices that it is gone.
  if (!link_ || number == SIGKILL) kill_group(record_.pid, number);
}

void TaskProcess::ask_to_stop() {
  signal(SIGTERM);
  signal(SIGCONT);
}

}  // namespace cohort::launch
