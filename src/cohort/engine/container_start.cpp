#include "cohort/engine/container_start.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/engine/container_places.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;

constexpr const char* kSecretVariable = "COHORT_SECRET_FD";
constexpr const char* kSecretFileVariable = "COHORT_SECRET_FILE";
constexpr const char* kSecretInside = "/run/cohort-secret";
constexpr const char* kGpuVariable = "CUDA_VISIBLE_DEVICES";
constexpr int kFirstInherited = 3;                // where podman's --preserve-fds begins
constexpr int kLeastVariablesFd = 64;             // out of its way
constexpr std::size_t kLongestValue = 32 * 1024;  // the tools read 64 KiB at most

bool fits_a_file(const std::string& value) {
  return value.size() < kLongestValue && std::none_of(value.begin(), value.end(), [](char c) {
           return static_cast<unsigned char>(c) < ' ' && c != '\t';
         });
}

// "cohort-JOB.1-worker-0": a second start of the same task takes the place of the first.
std::string container_name(const AttemptRequest& request, const Environment& variables) {
  const auto rank = variables.find_value("OMPI_COMM_WORLD_RANK");
  if (rank) return fmt::format("cohort-{}-rank-{}", request.id, *rank);
  return fmt::format("cohort-{}-{}-{}", request.id,
                     variables.find_value("COHORT_TASK_TYPE").value_or("task"),
                     variables.find_value("COHORT_TASK_INDEX").value_or("0"));
}

// The GPUs of the task on this host; inside of the container they have the numbers from 0 on.
std::vector<std::string> gpus_of(const AttemptRequest& request, const Environment& variables) {
  const auto visible = variables.find_value(kGpuVariable);
  if (!visible)
    return request.job.instance.gpus > 0 ? std::vector<std::string>{"all"}
                                         : std::vector<std::string>{};
  std::vector<std::string> gpus;
  for (const std::string& gpu : split(*visible, ','))
    if (!trim(gpu).empty()) gpus.emplace_back(trim(gpu));
  return gpus;
}

std::vector<std::string> gpu_words(const std::vector<std::string>& gpus, bool is_docker) {
  if (gpus.empty()) return {};
  if (is_docker)
    return {"--gpus",
            gpus.front() == "all" ? "all" : fmt::format("\"device={}\"", join(gpus, ","))};
  std::vector<std::string> words;
  for (const std::string& gpu : gpus)
    words.insert(words.end(), {"--device", "nvidia.com/gpu=" + gpu});
  return words;
}

void number_gpus(const std::vector<std::string>& gpus, Environment& variables) {
  if (gpus.empty() || gpus.front() == "all") return;
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < gpus.size(); ++i) numbers.push_back(std::to_string(i));
  variables[kGpuVariable] = join(numbers, ",");
}

// Moves what the task inherits to where podman takes it from; the variables say so. How many.
int pass_descriptors_on(Environment& variables) {
  int next = kFirstInherited;
  for (const char* name :
       {kSecretVariable, kRestartFlagVariable, kRestartStateVariable, kLastWordVariable}) {
    const auto number = parse_unsigned(variables.find_value(name).value_or(""));
    if (!number) continue;
    const int fd = static_cast<int>(*number);
    if (::dup2(fd, next) < 0) throw SystemError(fmt::format("{} is not open", name), errno);
    if (fd != next) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    variables[name] = std::to_string(next++);
  }
  return next - kFirstInherited;
}

// For docker, whose containers inherit nothing.
void put_secret_in_file(const AttemptRequest& request, const std::string& name,
                        Environment& variables, std::vector<Mount>& mounts) {
  const auto secret = Secret::from_variables(variables.find_value(kSecretVariable), std::nullopt);
  for (const char* variable :
       {kSecretVariable, kRestartFlagVariable, kRestartStateVariable, kLastWordVariable})
    variables.erase(variable);
  if (!secret) return;
  if (request.folder.empty())
    throw InvalidInput("docker cannot hand the job's secret to tasks on other hosts",
                       {.advice = "Install podman there, or set COHORT_CONTAINER_TOOL=podman."});
  const fs::path file = request.folder / (name + ".secret");
  ::unlink(file.c_str());  // of an earlier start of the same task
  secret->write_file(file);
  mounts.push_back({.here = file, .inside = kSecretInside});
  variables[kSecretFileVariable] = kSecretInside;
}

// Where mpirun keeps what it tells its ranks.
void mount_session(const Environment& variables, std::vector<Mount>& mounts) {
  const auto folder = variables.find_value("PMIX_SERVER_TMPDIR");
  if (folder) mounts.push_back({.here = *folder, .inside = *folder, .writable = true});
}

// A memory file that the tool inherits; its number.
int inherited_file(std::string_view text) {
  const UniqueFd file(::memfd_create("cohort-variables", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw SystemError("cannot make a file in memory", errno);
  const int fd = ::fcntl(file.get(), F_DUPFD, kLeastVariablesFd);
  if (fd < 0) throw SystemError("cannot pass the variables of a container on", errno);
  return fd;
}

std::string file_limit_here() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return "";
  return fmt::format("{}:{}", limit.rlim_cur, limit.rlim_max);
}

}  // namespace

std::string variables_file(const Environment& variables) {
  std::string text;
  for (const auto& [name, value] : variables)
    if (fits_a_file(value)) text += fmt::format("{}={}\n", name, value);
  return text;
}

std::vector<std::string> container_command(const AttemptRequest& request, const TaskStart& inside,
                                           const ContainerHost& host) {
  const std::string job = request.id.substr(0, request.id.rfind('.'));
  std::vector<std::string> words = host.tool.command({"run", "--rm"});
  const auto add = [&words](std::vector<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (!host.tool.is_docker) add({"--replace"});
  const std::string name = container_name(request, inside.environment);
  add({"--name", name, "--label", fmt::format("{}={}", kTaskLabel, name)});
  add({"--label", fmt::format("{}={}", kJobLabel, job)});
  add({"--label", fmt::format("{}={}", kAttemptLabel, request.id)});
  add({"--pull", "never", "--network", "host", "--ipc", "host", "--pid", "host"});
  add({"--log-driver", "none", "--stop-timeout", "0", "--security-opt", "label=disable"});
  if (!host.file_limit.empty()) add({"--ulimit", "nofile=" + host.file_limit});
  add({"--user", host.user});
  if (host.is_rootless) add({"--userns", "keep-id"});
  for (const Mount& mount : host.mounts)
    add({"--mount", fmt::format("type=bind,source={},target={}{}", mount.here.string(),
                                mount.inside.string(), mount.writable ? "" : ",readonly")});
  add(gpu_words(gpus_of(request, inside.environment), host.tool.is_docker));
  if (host.descriptors > 0) add({"--preserve-fds", std::to_string(host.descriptors)});
  if (host.variables_fd >= 0)
    add({"--env-file", fmt::format("/proc/self/fd/{}", host.variables_fd)});
  for (const auto& [name, value] : inside.environment)
    if (!fits_a_file(value)) add({"--env", name});
  if (!inside.folder.empty()) add({"--workdir", inside.folder.string()});
  add({"--entrypoint", "", request.job.runtime.place});
  add(inside.command);
  return words;
}

TaskStart in_container(const AttemptRequest& request, const TaskStart& inside,
                       const Environment& inherited) {
  ContainerHost host{
      .tool = find_container_tool(inherited),
      .mounts = container_places(request.job, folders_here(request, inherited)).mounts,
      .user = fmt::format("{}:{}", ::geteuid(), ::getegid()),
      .file_limit = file_limit_here()};
  host.is_rootless = !host.tool.is_docker && ::geteuid() != 0;
  TaskStart contained = inside;
  Environment& variables = contained.environment;
  if (host.tool.is_docker) {
    const std::string name = container_name(request, variables);
    remove_containers(kTaskLabel, name, inherited);
    put_secret_in_file(request, name, variables, host.mounts);
  } else {
    host.descriptors = pass_descriptors_on(variables);
  }
  mount_session(variables, host.mounts);
  Environment told = variables;
  number_gpus(gpus_of(request, variables), told);
  host.variables_fd = inherited_file(variables_file(told));
  TaskStart start{.command = container_command(request, contained, host),
                  .environment = inherited,
                  .folder = {}};
  for (const auto& [name, value] : variables)
    if (!fits_a_file(value)) start.environment[name] = value;
  return start;
}

}  // namespace cohort::engine
