#include "cohort/engine/kubernetes/pod_task.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/text.h"
#include "cohort/engine/kubernetes/coordinator_pod.h"
#include "cohort/engine/kubernetes/pods.h"
#include "cohort/engine/task_start.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/launch/process/process.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;

constexpr std::uint64_t kMostFailures = 1'000'000;

Secret secret_of_pod(const fs::path& mounted) {
  std::string text = read_file(mounted / kSecretFile);
  const Secret secret = Secret::from_text(trim(text), (mounted / kSecretFile).string());
  wipe(text.data(), text.size());
  return secret;
}

void unpack_source_of_pod(AttemptRequest& request, const fs::path& mounted) {
  const fs::path archive = mounted / kSourceFile;
  if (request.job.spec.source.empty() || !fs::exists(archive)) return;
  const fs::path place = fs::temp_directory_path() / fmt::format("cohort-{}", ::geteuid());
  fs::create_directories(place);
  request.source = jobspec::unpack_source(archive, request.job.spec.source, place);
}

// A pod cannot know how many of its index there were; the coordinator must tell them apart.
int incarnation_by_time() {
  constexpr std::time_t kBegin = 1'767'225'600;  // 2026
  return static_cast<int>(std::max<std::time_t>(0, std::time(nullptr) - kBegin));
}

Environment pod_environment(const launch::JobOptions& asked, const Pods& pods, int index,
                            const Environment& inherited) {
  Environment environment = inherited;
  cluster::Role role = pod_role(asked, pods, index, asked.elastic ? incarnation_by_time() : 0);
  // Tasks of one attempt meet by its number: only one that is alone can count its own failures.
  if (pods.count() == 1)
    if (const auto failures = parse_unsigned(inherited.find_value(kFailuresVariable).value_or("")))
      role.attempt = 1 + static_cast<int>(std::min<std::uint64_t>(*failures, kMostFailures));
  environment.erase(kFailuresVariable);
  cluster::write_all_dialects(role, environment);
  if (asked.threads_per_task)
    environment["OMP_NUM_THREADS"] = std::to_string(*asked.threads_per_task);
  if (role.task.type == cluster::TaskType::ps) environment["CUDA_VISIBLE_DEVICES"] = "";
  for (const auto& [name, value] : asked.environment) environment[name] = value;
  environment["COHORT_SECRET_FD"] = std::to_string(launch::task_fd_number(launch::TaskFd::secret));
  environment[kLastWordVariable] =
      std::to_string(launch::task_fd_number(launch::TaskFd::last_word));
  return environment;
}

// "./train" is below the folder that the image's programs start in, unless it is of the source.
std::vector<std::string> program_of_pod(const AttemptRequest& request) {
  std::vector<std::string> words = request.job.program;
  const bool is_path = !words.empty() && words.front().find('/') != std::string::npos;
  if (request.source.empty() && is_path) words.front() = fs::absolute(words.front()).string();
  return words;
}

sigset_t pod_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&set, signal);
  return set;
}

// This process may be the first of the container: it also reaps what others leave.
launch::ExitStatus wait_and_relay(pid_t program, const sigset_t& signals) {
  while (true) {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != program) continue;
      launch::ExitStatus exit;
      if (WIFSIGNALED(status))
        exit.signal = WTERMSIG(status);
      else
        exit.code = WEXITSTATUS(status);
      return exit;
    }
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) launch::kill_group(program, signal);
  }
}

// The kubelet keeps the first 4,096 bytes; who watches the job finds the root cause by it.
void leave_last_word(const LastWord& word, const fs::path& file) {
  if (word.kind == LastWord::Kind::none || file.empty()) return;
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const std::string text = encode_last_word(word);
  if (!fd || ::write(fd.get(), text.data(), text.size()) < 0)
    log::warning("the last word cannot be written to {}", file.string());
}

int run_program(const TaskStart& start, const Secret& secret, const PodPlace& place) {
  std::error_code code;
  fs::create_directories(start.folder, code);
  if (!start.folder.empty() && ::chdir(start.folder.c_str()) != 0)
    throw SystemError(fmt::format("cannot enter the folder '{}'", start.folder.string()), errno);
  const sigset_t signals = pod_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const LastWordOwner word;
  const UniqueFd secret_file = secret.to_memfd();
  const pid_t program = launch::spawn(
      {.program = launch::find_program(start.command.front(), start.environment.at("PATH")),
       .command = start.command,
       .environment = start.environment,
       .output = STDOUT_FILENO,
       .error = STDERR_FILENO,
       .inherited = {{secret_file.get(), launch::TaskFd::secret},
                     {word.fd(), launch::TaskFd::last_word}}});
  const launch::ExitStatus exit = wait_and_relay(program, signals);
  leave_last_word(word.read(program, exit.signal ? std::nullopt : std::optional<int>(exit.code)),
                  place.last_word);
  return exit.shell_code();
}

}  // namespace

int completion_index(const Environment& environment) {
  const std::string text = environment.find_value("JOB_COMPLETION_INDEX").value_or("");
  const auto index = parse_unsigned(text);
  if (!index || *index > 1'000'000)
    throw InvalidInput(
        fmt::format("JOB_COMPLETION_INDEX is '{}'", text),
        {.advice = "It is set in pods of an Indexed Job (completionMode: Indexed)."});
  return static_cast<int>(*index);
}

int run_pod_task(AttemptRequest request, launch::JobOptions asked, const PodPlace& place,
                 const Environment& inherited) {
  asked.id = request.id.substr(0, request.id.rfind('.'));
  const Pods pods = lay_out_pods(asked, place.job, place.service);
  const Secret secret = secret_of_pod(place.mounted);
  if (pods.has_coordinator && place.index == 0) return run_coordinator(asked, secret);
  unpack_source_of_pod(request, place.mounted);
  request.job.program = program_of_pod(request);
  const Environment environment = pod_environment(asked, pods, place.index, inherited);
  const auto missing = missing_here(request, environment, Looked::at_all);
  if (!missing.empty())
    throw InvalidInput(fmt::format("the job cannot start: {}", join(missing, "; ")),
                       {.advice = "Put it into the image or on a volume, and submit again."});
  for (const fs::path& folder : {request.output, request.model}) {
    std::error_code code;
    if (!folder.empty() && !fs::create_directories(folder, code) && code)
      throw SystemError(fmt::format("cannot make the folder '{}'", folder.string()), code.value());
  }
  return run_program(task_start(request, request.job.program, environment), secret, place);
}

}  // namespace cohort::engine::kubernetes
