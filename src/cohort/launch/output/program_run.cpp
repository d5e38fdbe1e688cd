#include "cohort/launch/output/program_run.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/launch/output/task_log.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kMostErrorBytes = 64 * 1024;  // the newest are kept

UniqueFd open_pipe(UniqueFd& reader) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot create a pipe", errno);
  reader.reset(fds[0]);
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  return UniqueFd(fds[1]);
}

}  // namespace

ProgramRun::ProgramRun(Options options, EventLoop& loop, std::function<void(Result)> done)
    : options_(std::move(options)), loop_(loop), done_(std::move(done)) {
  UniqueFd output = open_pipe(output_.fd), error = open_pipe(error_.fd);
  std::vector<std::string> command = {options_.program.string()};
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  pid_ = spawn({.program = options_.program,
                .command = std::move(command),
                .environment = options_.environment,
                .output = output.get(),
                .error = error.get()});
  process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_) {
    const int code = errno;
    kill_and_reap();
    throw SystemError(fmt::format("cannot watch '{}'", options_.program.string()), code);
  }
  for (Stream* stream : {&output_, &error_})
    loop_.add(stream->fd.get(), EPOLLIN, [this, stream](std::uint32_t) { read(*stream); });
  loop_.add(process_.get(), EPOLLIN, [this](std::uint32_t) { on_exit(); });
  timer_ = loop_.call_after(options_.limit, [this] {
    finish(fmt::format("it did not end within {:g} s",
                       std::chrono::duration<double>(options_.limit).count()));
  });
}

ProgramRun::~ProgramRun() {
  loop_.cancel(timer_);
  close(output_);
  close(error_);
  if (process_) loop_.remove(process_.get());
  kill_and_reap();
}

void ProgramRun::read(Stream& stream) {
  char buffer[16 * 1024];
  const bool is_output = &stream == &output_;
  ssize_t count = ::read(stream.fd.get(), buffer, sizeof buffer);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close(stream);
  stream.text.append(buffer, static_cast<std::size_t>(count));
  if (is_output && stream.text.size() > options_.most_bytes)
    return finish(fmt::format("it printed more than {} bytes", options_.most_bytes));
  if (!is_output && stream.text.size() > 2 * kMostErrorBytes)
    stream.text.erase(0, stream.text.size() - kMostErrorBytes);
}

void ProgramRun::close(Stream& stream) {
  if (!stream.fd) return;
  loop_.remove(stream.fd.get());
  stream.fd.reset();
}

void ProgramRun::on_exit() {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return finish("its exit code was taken by another part of this process");
  if (info.si_pid == 0) return;
  // No process writes any more once its children are gone too; what the pipes hold is little.
  kill_group(pid_, SIGKILL);
  const std::size_t most = options_.most_bytes;
  for (Stream* stream : {&output_, &error_}) {
    char buffer[16 * 1024];
    ssize_t count;
    while (stream->fd && stream->text.size() <= most &&
           (count = ::read(stream->fd.get(), buffer, sizeof buffer)) > 0)
      stream->text.append(buffer, static_cast<std::size_t>(count));
  }
  ExitStatus status;
  (info.si_code == CLD_EXITED ? status.code : status.signal) = info.si_status;
  if (output_.text.size() > most) return finish(fmt::format("it printed more than {} bytes", most));
  if (status.success()) return finish("");
  const std::string words = last_words();
  finish(to_string(status) + (words.empty() ? "" : ": " + words));
}

std::string ProgramRun::last_words() const {
  LastLines lines;
  for (const Stream* stream : {&output_, &error_})
    for (const auto& line : split(stream->text, '\n')) lines.add(line, false);
  return lines.last_words();
}

void ProgramRun::kill_and_reap() {
  if (pid_ < 0) return;
  kill_group(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void ProgramRun::finish(std::string failure) {
  kill_and_reap();
  loop_.cancel(std::exchange(timer_, 0));
  auto done = std::exchange(done_, nullptr);
  if (!done) return;
  done({.output = std::move(output_.text), .failure = std::move(failure)});
}

}  // namespace cohort::launch
