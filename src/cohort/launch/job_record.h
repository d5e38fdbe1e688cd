#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/launch/job.h"
#include "cohort/launch/task_record.h"

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
  std::string started;
  std::string ended;
  int attempt = 1;
  int max_restarts = 0;
  int task_restarts = 0;
  std::optional<int> exit_code;
  std::vector<TaskRecord> tasks;                           // of the current attempt
  std::vector<std::vector<TaskRecord>> previous_attempts;  // oldest first
  std::optional<TaskRecord> root_cause;
};

std::string to_json(const JobRecord& record);

// The folder of one job: OUTPUT/job.json and OUTPUT/logs/. Holds a lock on it, so that two jobs
// never write into one folder; what an earlier job left there is moved aside under its job's id,
// not overwritten. Confined to one thread.
class OutputFolder {
 public:
  // Throws InvalidInput when the folder cannot be made or written, or another job uses it.
  explicit OutputFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  std::filesystem::path record() const { return path_ / "job.json"; }

 private:
  void move_earlier_job_aside();

  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace cohort::launch
