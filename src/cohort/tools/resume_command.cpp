#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/launch/supervise/supervisor.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/platform_client.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLeftoverTime{10};

constexpr const char* kResumeExamples = R"(
Examples:
  cohort resume latest
      the newest job under ./cohort-output, after its launcher or the machine died
  cohort resume runs/big
      the job whose output folder is runs/big
  cohort resume 20261116-190102
      a submitted job that failed or was stopped: it is queued again

The job goes on from its newest checkpoint, with the words that it was started with. What trained
after that checkpoint is done again: cohort ledger verify shows which steps. Output folders and the
jobs under ./cohort-output come first; what is none of them is asked for from the service.
)";

struct Record {
  std::string job, state;
  long launcher = 0;
  fs::path folder;  // where it was started
};

Record read_resumable(const fs::path& output) {
  const fs::path path = output / launch::OutputFolder::kRecord;
  require_own_folder(output);
  const auto json =
      nlohmann::json::parse(read_own_file(path, launch::OutputFolder::kMostRecordBytes), nullptr,
                            /*allow_exceptions=*/false);
  try {
    Record record{
        .job = json.at("job"),
        .state = json.at("state"),
        .launcher = json.at("launcher_pid"),
        .folder = json.at("folder").is_string() ? json.at("folder").get<std::string>() : ""};
    if (escape_controls(record.job) != record.job)
      throw InvalidInput(fmt::format("the job's id in '{}' has control characters", path.string()));
    return record;
  } catch (const nlohmann::json::exception&) {
    throw InvalidInput(
        fmt::format("'{}' is not the record of a job of this version", path.string()),
        {.advice = "Start the job anew with cohort run."});
  }
}

void require_resumable(const Record& record, const fs::path& output) {
  if (is_folder_locked(output))  // a launcher holds the lock as long as it lives
    throw InvalidInput(
        fmt::format("job {} still runs (launcher pid {})", record.job, record.launcher),
        {.advice = fmt::format("Watch it with: cohort status {}", output.string())});
  if (record.state == "succeeded")
    throw InvalidInput(fmt::format("job {} has succeeded: there is nothing to resume", record.job),
                       {.advice = "Start another one with cohort run."});
}

RunWords read_words(const Record& record, const fs::path& output) {
  const fs::path path = output / launch::OutputFolder::kOptions;
  if (!fs::exists(path))
    throw InvalidInput(fmt::format("job {} left no '{}'", record.job, path.string()),
                       {.advice = "Start it anew with cohort run."});
  return run_words_from_json(read_own_file(path, launch::OutputFolder::kMostRecordBytes),
                             path.string());
}

int resume_submitted(sdk::ServiceClient& client, const std::string& named) {
  const sdk::Job job = client.resume(job_name(client, named));
  log::info("job {} is queued again and goes on from its checkpoints", escape_controls(job.id));
  fmt::print("{}\n", escape_controls(job.id));
  return 0;
}

int resume(const std::string& job) {
  if (job.empty())
    throw InvalidInput("cohort resume needs a job", {.advice = "As in: cohort resume latest"});
  const auto folder = find_job_folder(job);
  if (!folder)
    if (auto client = service_with_jobs()) return resume_submitted(*client, job);
  const fs::path output = fs::absolute(folder ? *folder : find_job(job));
  const Record record = read_resumable(output);
  require_resumable(record, output);
  const RunWords words = read_words(record, output);
  std::error_code code;
  if (!record.folder.empty()) fs::current_path(record.folder, code);
  if (code)
    throw InvalidInput(
        fmt::format("the folder '{}', in which job {} was started, cannot be "
                    "entered: {}",
                    record.folder.string(), record.job, code.message()));
  launch::JobOptions options = parse_run_words(words).job;  // in the folder where they were said
  options.output = output;
  options.resume = true;
  launch::settle(options);
  if (int hit = launch::end_leftovers(record.job, -1, Deadline::after(kLeftoverTime)); hit > 0)
    log::info("ended {} that the earlier launcher of job {} had left",
              hit == 1 ? "a process" : fmt::format("{} processes", hit), record.job);
  log::info("job {} goes on (it was {})", record.job, escape_controls(record.state));
  return launch::Supervisor(options, cluster::Environment::of_this_process(), to_json(words)).run();
}

}  // namespace

Command resume_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto job = std::make_shared<std::string>();
    app.description("Goes on with a job whose launcher died, or with a submitted one.");
    app.footer(kResumeExamples);
    app.add_option("JOB", *job,
                   "Output folder, job id (or its beginning) under ./cohort-output, latest, or a "
                   "submitted job");
    return [job](const Words&, const Words&) { return resume(*job); };
  };
  return {"resume", "go on with a job that ended early", "JOB", declare};
}

}  // namespace cohort::tools
