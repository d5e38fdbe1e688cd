#include "cohort/jobspec/runtime_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"

namespace cohort::jobspec {
namespace {

constexpr std::chrono::seconds kLongestAnswer{5};
constexpr std::size_t kMostAnswerBytes = 4096;

// Asks what is installed, and imports none of it.
constexpr const char* kQuestion = R"python(
import json, platform
from importlib import metadata
versions = {"python": platform.python_version()}
for package in ("tensorflow-cpu", "tensorflow", "torch", "keras", "horovod", "mxnet"):
    try:
        versions[package.replace("-cpu", "")] = metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
)python";

// What the child writes until it ends or the time is over. Takes the child with it.
std::string answer_of(pid_t child, int pipe) {
  const Deadline deadline = Deadline::after(kLongestAnswer);
  std::string answer;
  while (answer.size() < kMostAnswerBytes) {
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, deadline.poll_timeout_ms()) <= 0) break;
    char buffer[1024];
    const ssize_t count = ::read(pipe, buffer, sizeof buffer);
    if (count <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::kill(child, SIGKILL);  // it has ended by itself, unless it is late
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

std::string ask_python(std::string program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string words[] = {std::move(program), "-c", kQuestion};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writing.reset();
  return failed != 0 ? "" : answer_of(child, reading.get());
}

using Versions = std::map<std::string, std::string, std::less<>>;

Versions versions_of(const std::string& python) {
  const auto answer = nlohmann::json::parse(ask_python(python), nullptr, false);
  Versions result;
  if (answer.is_object())
    for (const auto& [name, version] : answer.items())
      if (version.is_string()) result[name] = version.get<std::string>();
  return result;
}

std::string version_among(const Versions& versions, std::string_view package) {
  const auto found = versions.find(package);
  return found == versions.end() ? "" : found->second;
}

}  // namespace

std::string version_at_hand(std::string_view package) {
  static const Versions versions = versions_of("python3");
  return version_among(versions, package);
}

std::string version_in_venv(std::string_view package, const std::string& venv) {
  return version_among(versions_of(venv + "/bin/python3"), package);
}

}  // namespace cohort::jobspec
