#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/launch/ending/task_record.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/record/elastic_record.h"

namespace cohort::launch {

enum class JobState { starting, running, stopping, restarting, succeeded, failed, stopped };

// What OUTPUT/job.json tells; docs/launcher.md lists its fields.
struct JobRecord {
  std::string job;
  JobState state = JobState::starting;
  std::vector<std::string> command;
  std::string strategy;
  SuccessPolicy success = SuccessPolicy::all_workers;
  pid_t launcher_pid = -1;
  std::filesystem::path folder;   // where the launcher was started
  std::filesystem::path control;  // its socket (control_socket.h); "" when it has none
  std::string started;
  std::string ended;
  int attempt = 1;
  int max_restarts = 0;
  int task_restarts = 0;
  std::optional<int> exit_code;
  std::vector<TaskRecord> tasks;                           // of the current attempt
  std::vector<std::vector<TaskRecord>> previous_attempts;  // oldest first
  std::optional<ElasticRecord> elastic;
  std::string failure;  // of the job as a whole, a sentence; "" when tasks alone say why
  std::optional<TaskRecord> root_cause;
};

std::string to_json(const JobRecord& record);

// The job that a folder holds already, as its job.json names it. Throws InvalidInput where there is
// none.
struct EarlierJob {
  std::string job;
  int attempt = 1;
};
EarlierJob read_earlier_job(const std::filesystem::path& output);

// The folder of one job: OUTPUT/job.json and OUTPUT/logs/. Holds a lock on it, so that two jobs
// never write into one folder; what an earlier job left there is moved aside under its job's id,
// not overwritten, unless it is that job that goes on. Confined to one thread.
class OutputFolder {
 public:
  static constexpr const char* kRecord = "job.json";
  // The words that the job was asked for with (tools/run_words.h).
  static constexpr const char* kOptions = "job-options.json";
  static constexpr std::size_t kMostRecordBytes = std::size_t{256} << 20;

  // Throws InvalidInput when the folder cannot be made or written, when others may write to it
  // (base/owned_files.h), or another job uses it.
  enum class Earlier { aside, kept };
  explicit OutputFolder(std::filesystem::path path, Earlier earlier = Earlier::aside);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path record() const { return path_ / kRecord; }

 private:
  void move_earlier_job_aside();

  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace cohort::launch
