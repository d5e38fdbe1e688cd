#include "cohort/engine/task_start.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/container_places.h"
#include "cohort/engine/container_tool.h"
#include "cohort/engine/task_variables.h"
#include "cohort/jobspec/job_environment.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;
using RuntimeKind = jobspec::RuntimeEnvironment::Kind;

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// "~/x" is below this host's home folder.
fs::path on_this_host(const fs::path& path, const Environment& environment) {
  const std::string& text = path.native();
  if (!text.starts_with("~/")) return path;
  return fs::path(environment.find_value("HOME").value_or("/")) / text.substr(2);
}

void add_runtime(const jobspec::RuntimeEnvironment& runtime, Environment& environment) {
  if (runtime.kind == RuntimeKind::image) return;  // it has its own
  environment.try_emplace("PATH", kDefaultPath);
  if (runtime.kind != RuntimeKind::venv) return;
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

// The program's words as the system runs them; a file of `source`, which the task sees as `seen`,
// goes before one of PATH.
std::vector<std::string> command_of(std::vector<std::string> words, const fs::path& source,
                                    const fs::path& seen) {
  if (words.empty()) throw InvalidInput("the job has no program");
  const fs::path program = words.front();
  std::error_code code;
  const bool in_source = !source.empty() && fs::is_regular_file(source / program, code);
  if (in_source) words.front() = (seen / program).string();
  if (const char* interpreter = interpreter_of(words)) words.insert(words.begin(), interpreter);
  return words;
}

bool is_script(const std::string& word) {
  const fs::path extension = fs::path(word).extension();
  return extension == ".py" || extension == ".sh";
}

// The files of the source that would run in a container; what else there is, its image knows.
void require_script(const std::vector<std::string>& program, const fs::path& source) {
  const bool is_named = program.size() > 1 && !is_script(program.front()) && is_script(program[1]);
  const std::string& script = program[is_named ? 1 : 0];
  std::error_code code;
  if (!source.empty() && is_script(script) && fs::path(script).is_relative() &&
      !fs::is_regular_file(source / script, code))
    throw InvalidInput(fmt::format("program '{}' not found", script));
}

// Both tools take their mounts apart at commas.
void require_mountable(const ContainerPlaces& places, std::vector<std::string>& missing) {
  for (const Mount& mount : places.mounts)
    if (mount.here.native().find(',') != std::string::npos)
      missing.push_back(
          fmt::format("'{}' has a comma in its name, and cannot be mounted", mount.here.string()));
}

// The script that an interpreter is given, behind its options; "" where there is none to be seen
// (-c, -m, another program).
std::string script_of(const std::vector<std::string>& words) {
  const std::string name = fs::path(words.front()).filename().string();
  if (!name.starts_with("python") && name != "bash" && name != "sh") return {};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-')) return is_script(word) ? word : std::string();
    if (word == "-W" || word == "-X") ++i;  // with a value
    if (!word.starts_with("--") && word.find_first_of("cm") != word.npos) return {};
  }
  return {};
}

// The files that would run, seen from the folder that the task runs in.
void require_program(const TaskStart& start, const fs::path& source) {
  const std::string& program = start.command.front();
  const std::string script = script_of(start.command);
  const bool has_path = program.find('/') != std::string::npos;
  std::error_code code;
  for (const std::string& file : {has_path ? program : std::string(), script}) {
    if (file.empty() || fs::is_regular_file(start.folder / file, code)) continue;
    throw InvalidInput(source.empty() || fs::path(file).is_absolute()
                           ? fmt::format("program '{}' not found", file)
                           : fmt::format("the source folder holds no file '{}'", file));
  }
  launch::find_program(has_path ? (start.folder / program).string() : program,
                       start.environment.at("PATH"));
}

// Whether the folder is there to write to, or could be made.
bool can_be_made(const fs::path& folder) {
  std::error_code code;
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (const auto type = fs::status(at, code).type(); type != fs::file_type::not_found)
      return type == fs::file_type::directory && ::access(at.c_str(), W_OK | X_OK) == 0;
  return true;
}

}  // namespace

bool has_image(const jobspec::ResolvedJob& job) { return job.runtime.kind == RuntimeKind::image; }

jobspec::Folders folders_here(const AttemptRequest& request, const Environment& inherited) {
  return {.output = request.output,
          .model = request.model,
          .source = on_this_host(request.source, inherited)};
}

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
  const bool contained = has_image(request.job);
  TaskStart start{.environment = contained ? told_to_containers(inherited) : inherited};
  const int instance = instance_of(request, inherited);
  if (inherited.contains(kMpiRank)) forget_launcher(start.environment);
  start.environment.erase(kTaskVariable);
  const jobspec::Folders here = folders_here(request, inherited);
  const jobspec::Folders seen = contained ? container_places(request.job, here).inside : here;
  add_runtime(request.job.runtime, start.environment);
  add_variables(jobspec::task_environment(request.job, seen, instance), seen.source,
                start.environment);
  if (request.resume) start.environment["COHORT_RESUME"] = "1";
  start.folder = seen.source.empty() ? seen.output : seen.source;
  start.command = command_of(program, here.source, seen.source);
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
  ::execve(program.c_str(), words.data(), environment.data());
  throw SystemError(fmt::format("cannot run '{}'", program.string()), errno);
}

std::vector<std::string> missing_here(const AttemptRequest& request, const Environment& inherited,
                                      Looked looked) {
  std::vector<std::string> missing;
  const jobspec::ResolvedJob& job = request.job;
  const jobspec::Folders here = folders_here(request, inherited);
  const fs::path& source = here.source;
  std::error_code code;
  if (!source.empty() && !fs::is_directory(source, code))
    missing.push_back(fmt::format("the source '{}' is not there", source.string()));
  if (job.runtime.kind == RuntimeKind::venv &&
      !fs::exists(fs::path(job.runtime.place) / "bin/python3", code))
    missing.push_back(
        fmt::format("the virtual environment '{}' has no bin/python3", job.runtime.place));
  if (has_image(job)) {
    if (std::string lack = missing_image(job.runtime.place, inherited); !lack.empty())
      missing.push_back(std::move(lack));
    require_mountable(container_places(job, here), missing);
  }
  for (const auto& [channel, input] : job.spec.inputs) {
    const std::string place = jobspec::channel_place(input);
    if (place.find("://") == std::string::npos && !fs::exists(place, code))
      missing.push_back(fmt::format("the data of input '{}', '{}', is not there", channel, place));
  }
  if (const fs::path output = job.spec.output; output.is_absolute() && !can_be_made(output))
    missing.push_back(fmt::format("the output folder '{}' cannot be written to", output.string()));
  if (looked == Looked::beside_program) return missing;
  try {
    if (has_image(job))
      require_script(job.program, source);
    else
      require_program(task_start(request, job.program, inherited), source);
  } catch (const InvalidInput& error) {
    missing.push_back(error.message());
  }
  return missing;
}

}  // namespace cohort::engine
