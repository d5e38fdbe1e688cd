#include "cohort/engine/task_start.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/text.h"
#include "cohort/cluster/role.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/line_relay.h"
#include "cohort/jobspec/job_environment.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;

constexpr const char* kMpiRank = "OMPI_COMM_WORLD_RANK";
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// "~/x" is below this host's home folder.
fs::path on_this_host(const fs::path& path, const Environment& environment) {
  const std::string& text = path.native();
  if (!text.starts_with("~/")) return path;
  return fs::path(environment.find_value("HOME").value_or("/")) / text.substr(2);
}

// mpirun hands its own role on to its ranks, which have others.
void forget_launcher(Environment& environment) {
  Environment written;
  cluster::Role one;
  one.cluster.set(cluster::TaskType::worker, {{"localhost", 1}});
  one.job = one.output = one.strategy = "x";
  one.store = one.master = one.horovod_rendezvous = cluster::Address{"localhost", 1};
  cluster::write_all_dialects(one, written);
  for (const auto& [name, value] : written)
    if (!name.starts_with("OMPI_") && !name.starts_with("PMI") && name != "COHORT_JOB")
      environment.erase(name);
  for (const char* name :
       {"COHORT_SECRET_FD", kRestartFlagVariable, kRestartStateVariable, kLastWordVariable})
    environment.erase(name);
}

void add_runtime(const jobspec::RuntimeEnvironment& runtime, Environment& environment) {
  environment.try_emplace("PATH", kDefaultPath);
  if (runtime.kind != jobspec::RuntimeEnvironment::Kind::venv) return;
  environment["VIRTUAL_ENV"] = runtime.place;
  environment["PATH"] = fmt::format("{}/bin:{}", runtime.place, environment["PATH"]);
  environment.erase("PYTHONHOME");
}

// The modules of the source go before those of the job's own PYTHONPATH, which wins over what this
// host has.
void add_variables(const jobspec::Variables& variables, const fs::path& source,
                   Environment& environment) {
  for (const auto& [name, value] : variables) environment[name] = value;
  if (!source.empty()) {
    std::string& path = environment["PYTHONPATH"];
    path = path.empty() ? source.string() : fmt::format("{}:{}", source.string(), path);
  }
  environment["PYTHONUNBUFFERED"] = "1";
  environment.try_emplace("PYTHONDONTWRITEBYTECODE", "1");  // the source is not the job's to change
}

// What runs a script; null: the program runs by itself.
const char* interpreter_of(const std::vector<std::string>& program) {
  const fs::path extension = program.empty() ? fs::path() : fs::path(program.front()).extension();
  return extension == ".py" ? "python3" : extension == ".sh" ? "bash" : nullptr;
}

// The program's words as the system runs them; a file of `source` goes before one of PATH.
std::vector<std::string> command_of(std::vector<std::string> words, const fs::path& source) {
  if (words.empty()) throw InvalidInput("the job has no program");
  const fs::path program = words.front();
  std::error_code code;
  const bool in_source = !source.empty() && fs::is_regular_file(source / program, code);
  if (in_source) words.front() = (source / program).string();
  if (const char* interpreter = interpreter_of(words)) words.insert(words.begin(), interpreter);
  return words;
}

bool is_script(const std::string& word) {
  const fs::path extension = fs::path(word).extension();
  return extension == ".py" || extension == ".sh";
}

// The files that would run, seen from the folder that the task runs in.
void require_program(const TaskStart& start) {
  const std::vector<std::string>& words = start.command;
  const bool has_path = words.front().find('/') != std::string::npos;
  launch::find_program(has_path ? (start.folder / words.front()).string() : words.front(),
                       start.environment.at("PATH"));
  const std::string name = fs::path(words.front()).filename().string();
  const bool is_interpreter = name.starts_with("python") || name == "bash" || name == "sh";
  std::error_code code;
  if (is_interpreter && words.size() > 1 && is_script(words[1]) &&
      !fs::is_regular_file(start.folder / words[1], code))
    throw InvalidInput(fmt::format("program '{}' not found", words[1]));
}

}  // namespace

int instance_of(const AttemptRequest& request, const Environment& environment) {
  const jobspec::ResolvedJob& job = request.job;
  const auto instances = static_cast<std::uint64_t>(std::max(1, job.instances));
  const std::uint64_t each =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(job.processes) / instances);
  const char* name = environment.contains(kMpiRank) ? kMpiRank : "COHORT_RANK";
  if (const auto rank = parse_unsigned(environment.find_value(name).value_or("")))  // servers: -1
    return static_cast<int>(std::min<std::uint64_t>(*rank / each, instances - 1));
  const auto index = parse_unsigned(environment.find_value("COHORT_TASK_INDEX").value_or(""));
  return static_cast<int>(index.value_or(0) % instances);
}

TaskStart task_start(const AttemptRequest& request, const std::vector<std::string>& program,
                     const Environment& inherited) {
  TaskStart start{.environment = inherited};
  const int instance = instance_of(request, inherited);
  if (inherited.contains(kMpiRank)) forget_launcher(start.environment);
  start.environment.erase(kTaskVariable);
  const fs::path source = on_this_host(request.source, inherited);
  add_runtime(request.job.runtime, start.environment);
  add_variables(jobspec::task_environment(
                    request.job,
                    {.output = request.output, .model = request.model, .source = source}, instance),
                source, start.environment);
  if (request.resume) start.environment["COHORT_RESUME"] = "1";
  start.folder = source.empty() ? request.output : source;
  start.command = command_of(program, source);
  return start;
}

void exec_task(const TaskStart& start) {
  std::error_code code;
  if (!start.folder.empty()) fs::create_directories(start.folder, code);
  if (!start.folder.empty() && ::chdir(start.folder.c_str()) != 0)
    throw SystemError(fmt::format("cannot enter the folder '{}'", start.folder.string()), errno);
  const fs::path program = launch::find_program(
      start.command.front(), start.environment.find_value("PATH").value_or(kDefaultPath));
  std::vector<std::string> variables;
  for (const auto& [name, value] : start.environment) variables.push_back(name + "=" + value);
  std::vector<char*> words, environment;
  for (const auto& word : start.command) words.push_back(const_cast<char*>(word.c_str()));
  for (const auto& text : variables) environment.push_back(const_cast<char*>(text.c_str()));
  words.push_back(nullptr);
  environment.push_back(nullptr);
  if (const auto rank = start.environment.find_value(kMpiRank)) relay_whole_lines(*rank);
  ::execve(program.c_str(), words.data(), environment.data());
  throw SystemError(fmt::format("cannot run '{}'", program.string()), errno);
}

std::vector<std::string> missing_here(const AttemptRequest& request, const Environment& inherited,
                                      Looked looked) {
  std::vector<std::string> missing;
  const jobspec::ResolvedJob& job = request.job;
  const fs::path source = on_this_host(request.source, inherited);
  std::error_code code;
  if (!source.empty() && !fs::is_directory(source, code))
    missing.push_back(fmt::format("the source '{}' is not there", source.string()));
  if (job.runtime.kind == jobspec::RuntimeEnvironment::Kind::venv &&
      !fs::exists(fs::path(job.runtime.place) / "bin/python3", code))
    missing.push_back(
        fmt::format("the virtual environment '{}' has no bin/python3", job.runtime.place));
  for (const auto& [channel, input] : job.spec.inputs) {
    const std::string place = jobspec::channel_place(input);
    if (place.find("://") == std::string::npos && !fs::exists(place, code))
      missing.push_back(fmt::format("the data of input '{}', '{}', is not there", channel, place));
  }
  if (looked == Looked::beside_program) return missing;
  try {
    require_program(task_start(request, job.program, inherited));
  } catch (const InvalidInput& error) {
    missing.push_back(error.message());
  }
  return missing;
}

}  // namespace cohort::engine
