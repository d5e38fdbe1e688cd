// Starting this user's own service on demand.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/sdk/service_address.h"

namespace cohort::sdk {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStartTime{10};
// Another client may have started one at the same time: ours then ends, and that one answers.
constexpr std::chrono::seconds kOthersTime{2};
constexpr std::chrono::milliseconds kStartLook{10};
constexpr std::size_t kLogTail = 2000;  // bytes

fs::path find_program(const fs::path& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("COHORT_PROGRAM")) return named;
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  if (const fs::path beside = self.parent_path() / "cohort"; fs::exists(beside, ignored))
    return beside;
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "", ':'))
    if (const fs::path program = fs::path(folder) / "cohort"; ::access(program.c_str(), X_OK) == 0)
      return program;
  throw InvalidInput("no program 'cohort', with which a service could be started",
                     {.advice = "Set COHORT_PROGRAM to its path, or put its folder into PATH."});
}

// The file actions and attributes of posix_spawn().
struct SpawnSettings {
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// This process's variables, with the root by its whole path: the service runs in another folder.
std::vector<std::string> service_variables(const fs::path& root) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("COHORT_HOME=")) variables.emplace_back(*variable);
  variables.push_back("COHORT_HOME=" + root.string());
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A process of a session of its own, which outlives this one.
pid_t start_detached(const fs::path& program, const fs::path& root, int log) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&settings.actions, log, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.actions, log, STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&settings.actions, root.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &all);
  ::posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = {program.string(), "serve", "--on-demand"};
  std::vector<std::string> variables = service_variables(root);
  pid_t pid = -1;
  if (int code = ::posix_spawn(&pid, program.c_str(), &settings.actions, &settings.attributes,
                               pointers_to(words).data(), pointers_to(variables).data());
      code != 0)
    throw SystemError(fmt::format("cannot start '{}'", program.string()), code);
  return pid;
}

// What the service wrote since it was started.
std::string written_since(const fs::path& log, off_t begin) {
  std::string text = read_file(log);
  text.erase(0, std::min<std::size_t>(text.size(), static_cast<std::size_t>(begin)));
  if (text.size() > kLogTail) text.erase(0, text.size() - kLogTail);
  return std::string(trim(text));
}

// The last line that the service wrote since it was started, for the message: why it ended.
std::string last_words(const fs::path& log, off_t begin) {
  const std::string text = written_since(log, begin);
  std::string line = text.substr(text.rfind('\n') + 1);  // npos + 1: the whole text
  for (const std::string_view prefix : {"cohort: ", "error: "})
    if (line.starts_with(prefix)) line.erase(0, prefix.size());
  while (line.ends_with('.')) line.pop_back();
  return line;
}

}  // namespace

ServiceAddress find_or_start_service(const fs::path& program) {
  if (auto found = find_service()) return *found;
  const fs::path root = default_root();
  make_own_folder(root);
  const fs::path log_path = root / "service.log";
  UniqueFd log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log) throw SystemError(fmt::format("cannot write '{}'", log_path.string()), errno);
  const off_t begin = std::max<off_t>(::lseek(log.get(), 0, SEEK_END), 0);
  const fs::path found_program = find_program(program);
  log::info("no service runs for '{}': starting one ({} serve --on-demand)", root.string(),
            found_program.string());
  const pid_t pid = start_detached(fs::absolute(found_program), root, log.get());

  Deadline deadline = Deadline::after(kStartTime);
  bool has_ended = false;
  while (true) {
    if (auto found = find_service()) return *found;
    if (!has_ended && ::waitpid(pid, nullptr, WNOHANG) == pid) {
      has_ended = true;
      deadline = Deadline::after(kOthersTime);
    }
    if (deadline.expired()) break;
    std::this_thread::sleep_for(kStartLook);
  }
  const std::string said = last_words(log_path, begin);
  throw Error(fmt::format("the service {}{}{}",
                          has_ended ? "ended as soon as it was started"
                                    : "does not answer 10 s after it was started",
                          said.empty() ? "" : ": ", escape_controls(said)),
              {.advice = fmt::format("See '{}'.", log_path.string())});
}

}  // namespace cohort::sdk
