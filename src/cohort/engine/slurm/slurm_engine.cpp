#include "cohort/engine/slurm/slurm_engine.h"

#include <unistd.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_log.h"
#include "cohort/engine/attempt_status.h"
#include "cohort/engine/bounded_command.h"
#include "cohort/engine/slurm/slurm_attempt.h"
#include "cohort/engine/slurm/slurm_ending.h"
#include "cohort/engine/slurm/slurm_options.h"
#include "cohort/engine/supervisor_process.h"
#include "cohort/engine/task_start.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kSubmitTime{8};
constexpr std::chrono::seconds kPingTime{2};
constexpr std::chrono::seconds kCancelTime{4};
constexpr std::chrono::seconds kSlurmScaleTime{10};

// What reaches the job of the service's own variables; nothing else does, secrets least of all.
constexpr const char* kPassedOn[] = {"PATH", "HOME",   "USER",   "LOGNAME",         "SHELL",
                                     "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SLURM_CONF"};

// sbatch hands its whole environment on. (Told by name what to hand on, it makes Slurm run the
// user's login scripts as well.)
cluster::Environment passed_on() {
  const auto own = cluster::Environment::of_this_process();
  cluster::Environment few;
  for (const char* name : kPassedOn)
    if (const auto value = own.find_value(name)) few[name] = *value;
  return few;
}

std::string slurm_name(const AttemptRequest& request) { return "cohort-" + request.id; }

// sbatch replaces patterns in the name of the output file.
std::string without_patterns(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

// The first number of sbatch's "123" or "123;cluster", or of a line of squeue.
std::optional<SlurmId> first_number(std::string_view text) {
  const auto line = trim(text.substr(0, text.find('\n')));
  return parse_unsigned(line.substr(0, line.find(';')));
}

std::optional<SlurmId> submitted_job(const AttemptFolder& folder) {
  std::error_code code;
  if (!fs::exists(folder.slurm_job(), code)) return std::nullopt;
  try {
    return first_number(read_own_file(folder.slurm_job(), 4096));
  } catch (const SystemError&) {  // removed since
    return std::nullopt;
  }
}

// One that an earlier call got into the queue before it was cut off.
std::optional<SlurmId> job_in_queue(const std::string& name) {
  const auto answer = run_command({"squeue", "--noheader", fmt::format("--user={}", ::geteuid()),
                                   "--states=all", fmt::format("--name={}", name), "--format=%A"},
                                  kSubmitTime);
  if (!answer.ok())
    throw PeerError(fmt::format("Slurm does not say whether it has the job: {}", answer.said()));
  return first_number(answer.output);
}

bool controller_answers() { return run_command({"scontrol", "ping"}, kPingTime).ok(); }

}  // namespace

SlurmEngine::SlurmEngine(Options options) : options_(std::move(options)), view_(options_.period) {
  if (options_.cohort.empty()) options_.cohort = this_program();
}

void SlurmEngine::check(const jobspec::ResolvedJob& job, const fs::path& source) const {
  if (job.runtime.kind == jobspec::RuntimeEnvironment::Kind::image)
    throw InvalidInput(
        fmt::format("image '{}': the engine 'slurm' runs no containers", job.runtime.place),
        {.advice = "Leave image out, or choose another engine."});
  slurm_options(job, job.spec.name);
  try {
    launch::find_program("sbatch",
                         cluster::Environment::of_this_process().find_value("PATH").value_or(
                             "/usr/local/bin:/usr/bin:/bin"));
  } catch (const InvalidInput&) {
    throw InvalidInput("the engine 'slurm' needs sbatch, which is not in PATH of the service",
                       {.advice = "Start the service on a machine that submits to Slurm; cohort "
                                  "doctor --engine slurm says what is missing."});
  }
  const auto missing = missing_here({.source = source, .job = job},
                                    cluster::Environment::of_this_process(), Looked::at_all);
  if (!missing.empty())
    throw InvalidInput(fmt::format("the job could not start: {}", join(missing, "; ")),
                       {.advice = "Put it on the file system that the nodes share."});
}

void SlurmEngine::submit(const AttemptRequest& request) {
  const AttemptFolder folder{request.folder};
  if (claimed_by(folder) || submitted_job(folder)) return;
  const std::string name = slurm_name(request);
  const bool has_begun = fs::exists(folder.slurm_script());
  write_request(request);
  std::optional<SlurmId> id = has_begun ? job_in_queue(name) : std::nullopt;
  if (!id) {
    // The words are the service's own: no text of a job becomes part of the script.
    write_file_atomically(
        folder.slurm_script(),
        fmt::format("#!/bin/sh\nexec {} attempt --slurm {}\n",
                    shell_quote(options_.cohort.string()), shell_quote(folder.path.string())),
        0700);
    std::vector<std::string> words = {"sbatch", "--parsable", "--chdir=/", "--export=ALL",
                                      "--output=" + without_patterns(folder.supervisor_log())};
    for (const std::string& word : slurm_options(request.job, name)) words.push_back(word);
    words.push_back(folder.slurm_script().string());
    const CommandAnswer answer = run_command(words, kSubmitTime, passed_on());
    id = answer.ok() ? first_number(answer.output) : std::nullopt;
    if (!id && answer.ended && controller_answers())
      throw InvalidInput(fmt::format("Slurm refuses the job: {}", answer.said()),
                         {.advice = "Change queue, resources or engine_options."});
    if (!id) throw PeerError(fmt::format("Slurm does not take the job now: {}", answer.said()));
  }
  write_file_atomically(folder.slurm_job(), fmt::format("{}\n", *id), 0600);
  watched(request.folder);
}

// Remembers it, for the time when the folder is gone.
std::optional<SlurmEngine::Watched> SlurmEngine::watched(const fs::path& folder) const {
  auto id = claiming_slurm_job({folder});
  const bool has_claim = id.has_value();
  if (!id) id = submitted_job({folder});
  const std::lock_guard lock(mutex_);
  auto& entry = seen_[folder];
  // An answer from before the claim would say that it waits.
  if (id && (entry.id != *id || (has_claim && !entry.has_claim)))
    entry = {.id = *id, .has_claim = has_claim, .since = Clock::now()};
  const Watched found = entry;
  if (found.id == 0) seen_.erase(folder);
  return found.id == 0 ? std::nullopt : std::optional(found);
}

bool SlurmEngine::has_settled(const fs::path& folder, SlurmId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(folder);
  if (found == seen_.end() || found->second.id != id) return false;
  if (!found->second.ended) found->second.ended = Clock::now();
  return Clock::now() - *found->second.ended >= options_.settle_time;
}

AttemptStatus SlurmEngine::observe(const fs::path& folder) const {
  const AttemptFolder files{folder};
  const auto known = watched(folder);
  std::error_code code;
  if (!fs::is_directory(folder, code)) {
    if (!known) return {};
    try {
      cancel(known->id);
      const std::lock_guard lock(mutex_);
      seen_.erase(folder);
    } catch (const Error& error) {
      log::warning("{}", error.what());
    }
    return {.state = AttemptState::lost,
            .failure = fmt::format("the attempt's folder '{}' was removed", folder.string())};
  }
  if (known) return status_of(files, *known);
  // Not submitted, and it will not be: the supervisor would see the mark.
  if (fs::exists(files.request(), code) && fs::exists(files.stop_mark(), code))
    return {.state = AttemptState::stopped};
  return {};
}

AttemptStatus SlurmEngine::status_of(const AttemptFolder& folder, const Watched& known) const {
  const auto answer = view_.find(known.id, known.since);  // before the record is read
  std::error_code code;
  const SlurmSight sight{.id = known.id,
                         .answered = answer.has_value(),
                         .job = answer ? answer->job : std::nullopt,
                         .stop_asked = fs::exists(folder.stop_mark(), code)};
  AttemptStatus status = recorded_status(folder);
  const bool has_ended_in_slurm =
      sight.answered && (!sight.job || sight.job->phase == SlurmPhase::ended);
  const bool settled =
      has_ended_in_slurm && (has_ended(status.state) || has_settled(folder.path, known.id));
  const AttemptState written = status.state;
  judge(sight, settled, status);
  if (written == AttemptState::unknown && status.state == AttemptState::failed)
    status.failure += last_words(folder);
  if (!has_ended(status.state) && !view_.failure().empty() && status.waiting.empty())
    status.waiting = fmt::format("Slurm does not answer: {}", view_.failure());
  return status;
}

LogChunk SlurmEngine::read_log(const fs::path& folder, std::string_view task, std::uint64_t offset,
                               std::size_t most_bytes) const {
  const bool ended = has_ended(observe(folder).state);
  return read_attempt_log({folder}, task, offset, most_bytes, ended);
}

// Both by state, whichever it is in by then. Only the launcher gets the signal: it ends its tasks.
void SlurmEngine::cancel(SlurmId id) const {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"scancel", "--state=PENDING"},
        std::vector<std::string>{"scancel", "--state=RUNNING", "--batch", "--signal=TERM"}}) {
    auto command = words;
    command.push_back(std::to_string(id));
    const auto answer = run_command(command, kCancelTime);
    if (!answer.ok() && !controller_answers())
      throw PeerError(fmt::format("Slurm does not stop job {} now: {}", id, answer.said()));
  }
}

void SlurmEngine::stop(const fs::path& folder) {
  const AttemptFolder files{folder};
  const auto known = watched(folder);
  if (fs::is_directory(folder)) {
    if (has_ended(observe(folder).state)) return;
    write_file_atomically(files.stop_mark(), utc_timestamp(), 0600);
  }
  if (known) cancel(known->id);
}

void SlurmEngine::scale(const fs::path& folder, int workers) {
  const AttemptFolder files{folder};
  const AttemptStatus status = observe(folder);
  const auto id = claiming_slurm_job(files);
  if (status.state != AttemptState::running || !id)
    throw InvalidInput("the attempt does not run",
                       {.advice = "Only an elastic job that runs can have another number of "
                                  "workers."});
  // The launcher listens on a socket of its own node.
  const auto answer = run_command(
      {"srun", "--quiet", fmt::format("--jobid={}", *id), "--overlap", "--nodes=1", "--ntasks=1",
       "--mem=0", "--relative=0", "--export=ALL", options_.cohort.string(), "scale",
       files.run().string(), std::to_string(workers), "--no-wait"},
      kSlurmScaleTime);
  if (!answer.ok()) throw InvalidInput(answer.said(), {.advice = "Only an elastic job is scaled."});
}

std::vector<fs::path> SlurmEngine::list(const fs::path& jobs) const {
  std::vector<fs::path> running;
  std::error_code code;
  for (const auto& job : fs::directory_iterator(jobs, code))
    for (const auto& attempt : fs::directory_iterator(job.path() / "attempts", code)) {
      const AttemptState state = observe(attempt.path()).state;
      if (state != AttemptState::unknown && !has_ended(state)) running.push_back(attempt.path());
    }
  return running;
}

}  // namespace cohort::engine
