#include "cohort/tools/run_file.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/machine.h"
#include "cohort/cluster/environment.h"
#include "cohort/jobspec/job_environment.h"
#include "cohort/jobspec/runtime_probe.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/tools/commands.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;
using jobspec::Distribution;
using jobspec::JobSpec;
using jobspec::ResolvedJob;

// Channels, folders and hyperparameters are told to programs of platforms; a file with options of
// `cohort run` alone adds nothing to its tasks' environment.
bool is_platform_job(const JobSpec& spec) {
  return !spec.inputs.empty() || !spec.hyperparameters.empty() || !spec.entry_point.empty() ||
         spec.distribution != Distribution::none;
}

jobspec::Folders folders_of(const JobSpec& spec) {
  if (spec.output.empty()) return {};
  const fs::path output = fs::absolute(spec.output);
  fs::create_directories(output / "model");
  return {.output = output, .model = output / "model", .source = {}, .channels = {}};
}

jobspec::Variables variables_of(const ResolvedJob& job) {
  auto variables =
      is_platform_job(job.spec) ? task_environment(job, folders_of(job.spec), 0) : job.env;
  // The launcher's own, and what only the service can tell apart.
  for (const char* name : {"COHORT_OUTPUT", "SM_CURRENT_HOST"})
    if (!job.env.contains(name)) variables.erase(name);
  if (job.runtime.kind == jobspec::RuntimeEnvironment::Kind::venv) {
    const auto path = cluster::Environment::of_this_process().find_value("PATH");
    variables.emplace("VIRTUAL_ENV", job.runtime.place);
    variables.emplace("PATH", job.runtime.place + "/bin:" + path.value_or("/usr/bin:/bin"));
  }
  return variables;
}

Words program_of(const ResolvedJob& job) {
  Words program = job.program;
  if (job.runtime.kind == jobspec::RuntimeEnvironment::Kind::venv && program.front() == "python3")
    program.front() = job.runtime.place + "/bin/python3";
  if (job.spec.distribution != Distribution::mpi) return program;
  Words words = {"mpirun", "--host", fmt::format("localhost:{}", job.processes)};
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  words.insert(words.end(), job.mpirun_words.begin(), job.mpirun_words.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

void require_this_machine(const JobSpec& spec) {
  for (const auto& [option, value] : spec.run_options)
    if (spec.distribution == Distribution::mpi && (option == "hosts" || option == "hostfile"))
      throw InvalidInput(
          fmt::format("{} and the distribution mpi exclude each other in `cohort run`", option),
          {.advice = "Submit the job: the service starts mpirun on other hosts."});
}

}  // namespace

jobspec::KnownOptions known_run_options() {
  const DeclaredCommand run(run_command());
  jobspec::KnownOptions known{long_option_names(*run.app)};
  for (const char* of_one_run : {"config", "dashboard"}) std::erase(known.names, of_one_run);
  std::erase(known.names, "help");
  return known;
}

jobspec::JobSpec read_description(const std::string& file) {
  const jobspec::KnownOptions known = known_run_options();
  if (!file.ends_with(".json")) return jobspec::read_job_file(file, known);
  if (!fs::is_regular_file(file))
    throw InvalidInput(fmt::format("'{}' is no file", file), {.advice = "Check the path."});
  try {
    return jobspec::spec_from_json(read_file(file), known);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", file, error.message()), error.context());
  }
}

jobspec::Machine this_machine() {
  const auto gpus = launch::visible_gpus(cluster::Environment::of_this_process());
  return {.size = {.cores = static_cast<double>(usable_cores()),
                   .memory_bytes = usable_memory(),
                   .gpus = static_cast<int>(gpus.size())},
          .hosts = 1,
          .version_at_hand = jobspec::version_at_hand,
          .version_in_venv = jobspec::version_in_venv};
}

void add_job_file(const fs::path& path, RunWords& words) {
  JobSpec spec = jobspec::read_job_file(path, known_run_options());
  if (!words.program.empty()) {
    spec.program = words.program;
    spec.entry_point.clear();
  }
  // Nothing is packed: the program runs where it lies.
  if (!spec.entry_point.empty() && !spec.source_dir.empty())
    spec.entry_point = (fs::path(spec.source_dir) / spec.entry_point).string();
  spec.source_dir.clear();
  require_this_machine(spec);
  jobspec::Machine machine = this_machine();
  machine.is_shared = false;  // nothing is reserved, so nothing is held back
  ResolvedJob job;
  try {
    job = jobspec::resolve(spec, machine, jobspec::read_catalogues({}));
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", path.string(), error.message()), error.context());
  }
  for (const std::string& note : job.notes) log::info("{}", note);
  if (!job.spec.image.empty())
    log::info("cohort run has no containers: image '{}' is passed over", job.spec.image);
  words.job_file = path.string();
  words.file_arguments = job.run_words;
  const auto add = [&words](const char* option, const std::string& value) {
    words.file_arguments.insert(words.file_arguments.end(), {option, value});
  };
  if (!job.spec.output.empty()) add("--output", job.spec.output);
  if (job.spec.max_run.count() > 0) add("--max-run", std::to_string(job.spec.max_run.count()));
  for (const auto& [name, value] : variables_of(job)) add("--env", name + "=" + value);
  words.program = program_of(job);
}

}  // namespace cohort::tools
