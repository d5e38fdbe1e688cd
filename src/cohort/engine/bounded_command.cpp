#include "cohort/engine/bounded_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/process/process.h"

namespace cohort::engine {
namespace {

constexpr std::size_t kMostOutput = std::size_t{16} << 20;
constexpr std::size_t kMostError = 64 * 1024;
constexpr std::size_t kShownError = 600;

struct CommandPipe {
  UniqueFd reading, writing;
  std::string text;
};

void open_pipe(CommandPipe& pipe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  pipe.reading.reset(ends[0]);
  pipe.writing.reset(ends[1]);
}

// False at the end.
bool read_some(CommandPipe& pipe, std::size_t most) {
  char buffer[16 * 1024];
  const ssize_t count = ::read(pipe.reading.get(), buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (pipe.text.size() < most) pipe.text.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

// Until both streams have ended; false when the time was over first.
bool read_both(CommandPipe& output, CommandPipe& error, Deadline deadline) {
  while (output.reading || error.reading) {
    std::array<pollfd, 2> fds{
        {{output.reading.get(), POLLIN, 0}, {error.reading.get(), POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), deadline.poll_timeout_ms());
    if (ready < 0 && errno != EINTR) throw SystemError("cannot wait for a command", errno);
    if (ready == 0 && deadline.expired()) return false;
    if (ready <= 0) continue;
    if (fds[0].revents != 0 && !read_some(output, kMostOutput)) output.reading.reset();
    if (fds[1].revents != 0 && !read_some(error, kMostError)) error.reading.reset();
  }
  return true;
}

}  // namespace

std::string CommandAnswer::said() const {
  if (!ended) return "it does not answer";
  return error.empty() ? fmt::format("exit code {}", exit_code) : error;
}

CommandAnswer run_command(const std::vector<std::string>& words, std::chrono::milliseconds limit,
                          const cluster::Environment& environment) {
  const Deadline deadline = Deadline::after(limit);
  CommandPipe output, error;
  open_pipe(output);
  open_pipe(error);
  const auto path = environment.find_value("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  const pid_t pid = launch::spawn({.program = launch::find_program(words.front(), path),
                                   .command = words,
                                   .environment = environment,
                                   .output = output.writing.get(),
                                   .error = error.writing.get()});
  output.writing.reset();
  error.writing.reset();
  CommandAnswer answer;
  answer.ended = read_both(output, error, deadline);
  if (!answer.ended) launch::kill_group(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  answer.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  answer.output = std::move(output.text);
  std::vector<std::string> lines;
  for (const std::string& line : split(error.text, '\n'))
    if (!trim(line).empty()) lines.push_back(escape_controls(std::string(trim(line))));
  answer.error = join(lines, "; ");
  if (answer.error.size() > kShownError) answer.error.erase(0, answer.error.size() - kShownError);
  return answer;
}

}  // namespace cohort::engine
