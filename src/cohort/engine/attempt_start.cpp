#include "cohort/engine/attempt_start.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"
#include "cohort/engine/host_staging.h"
#include "cohort/engine/mpi_start.h"
#include "cohort/engine/task_start.h"

namespace cohort::engine {
namespace {

using jobspec::Distribution;

constexpr std::size_t kLongestVariable = 128 * 1024 - 64;  // the system's limit, with the name

bool is_mpi(const AttemptRequest& request) {
  return request.job.spec.distribution == Distribution::mpi;
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Nodes of Slurm share the file system that the attempt's folder is on.
bool shares_files(const AttemptRequest& request) { return request.job.spec.engine == "slurm"; }

// All attempts of a job have the job's name: its checkpoints are found again by it.
std::string job_of(const std::string& attempt) { return attempt.substr(0, attempt.rfind('.')); }

// Tasks on other hosts cannot read the attempt's folder; the launcher hands them its variables over
// the remote shell's input.
std::string task_variable(const AttemptRequest& request) {
  std::string text = to_json(as_on_hosts(request));
  if (text.size() > kLongestVariable)
    throw InvalidInput(fmt::format("the job's description has {} bytes; on other hosts it may have "
                                   "{}",
                                   text.size(), kLongestVariable),
                       {.advice = "Put large hyperparameters into a file of the source folder."});
  return text;
}

// Where hosts have Cohort at another place, host-task there becomes what it itself is; mpirun's
// daemons look for the place that was named.
std::string wrapper_program(const AttemptRequest& request, const launch::JobOptions& asked,
                            const std::filesystem::path& cohort) {
  if (!runs_elsewhere(asked) || asked.remote.cohort.empty()) return cohort.string();
  return is_mpi(request) ? asked.remote.cohort : "/proc/self/exe";
}

// mpirun is the only task; how many processes there are, and where, is its business.
void make_one_task(launch::JobOptions& options) {
  options.workers = 1;
  options.ps = 0;
  options.evaluator = options.coordinator = false;
  options.chief_name = launch::ChiefName::none;
  options.layout = launch::Layout::separate;
  options.strategy.clear();
  options.elastic.reset();
  options.gpus_per_worker.reset();
  options.hosts.clear();
  options.task_restarts = 0;
}

}  // namespace

launch::JobOptions attempt_options(const AttemptRequest& request, launch::JobOptions asked,
                                   const std::filesystem::path& cohort) {
  const bool elsewhere = runs_elsewhere(asked) && !shares_files(request);
  const AttemptFolder folder{request.folder};
  std::vector<std::string> wrapper = {wrapper_program(request, asked, cohort), "exec-task"};
  if (!elsewhere) wrapper.push_back(folder.request().string());
  wrapper.emplace_back("--");
  launch::JobOptions options = asked;
  if (elsewhere) options.environment[kTaskVariable] = task_variable(request);
  options.command = joined(wrapper, request.job.program);
  if (is_mpi(request)) {
    make_one_task(options);
    options.command = joined(mpirun_command(request, asked), options.command);
    options.command = joined({cohort.string(), "exec-task", "--mpirun", folder.path.string(), "--"},
                             options.command);
    options.environment.merge(mpirun_variables());
  }
  if (options.elastic) {
    const int each = std::max(1, request.job.processes / std::max(1, request.job.instances));
    options.elastic->first =
        std::clamp(request.instances * each, options.elastic->least, options.elastic->most);
  }
  options.id = job_of(request.id);
  options.output = folder.run();
  options.max_run = request.job.spec.max_run;
  return options;
}

cluster::Environment attempt_environment(const AttemptRequest& request) {
  auto environment = cluster::Environment::of_this_process();
  if (request.job.spec.engine != "local") return environment;
  std::vector<std::string> gpus;
  for (const int gpu : request.gpu_indices) gpus.push_back(std::to_string(gpu));
  environment["CUDA_VISIBLE_DEVICES"] = join(gpus, ",");
  return environment;
}

void put_in_place(const AttemptRequest& request, const launch::JobOptions& asked) {
  for (const auto& folder : {request.output, request.model})
    if (!folder.empty()) std::filesystem::create_directories(folder);
  if (is_mpi(request)) {
    const AttemptFolder folder{request.folder};
    std::filesystem::create_directories(folder.ranks());
    write_file_atomically(folder.host_file(), host_file_text(asked.hosts, request.job.processes));
  }
  if (runs_elsewhere(asked) && !shares_files(request)) return stage_on_hosts(request, asked);
  const auto missing =
      missing_here(request, cluster::Environment::of_this_process(), Looked::at_all);
  if (!missing.empty())
    throw InvalidInput(fmt::format("the job cannot start: {}", join(missing, "; ")),
                       {.advice = "Put it in place, and submit the job again."});
}

}  // namespace cohort::engine
