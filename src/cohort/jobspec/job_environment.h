#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cohort/jobspec/resolved_job.h"

// The variables by which a program finds its channels, folders and hyperparameters. Pure functions.
namespace cohort::jobspec {

// Where things are for the tasks of an attempt. An empty path is not told to the program.
struct Folders {
  std::filesystem::path output;  // COHORT_OUTPUT, SM_OUTPUT_DATA_DIR
  std::filesystem::path model;   // SM_MODEL_DIR
  std::filesystem::path source;  // SM_MODULE_DIR
  // Channels whose data lies elsewhere than the description says (mounted, copied).
  std::map<std::string, std::filesystem::path> channels;
};

using Variables = std::map<std::string, std::string>;

// What every task of the job gets: the job's own `env` (which wins), channels, folders,
// hyperparameters (SM_HPS, SM_HP_<NAME>, SM_USER_ARGS), SM_HOSTS.
Variables job_environment(const ResolvedJob& job, const Folders& folders);

// The same, and what differs by instance (0 to job.instances - 1): SM_CURRENT_HOST, SM_NUM_CPUS,
// SM_NUM_GPUS.
Variables task_environment(const ResolvedJob& job, const Folders& folders, int instance);

// "algo-1" for instance 0.
std::string instance_name(int instance);

// "file:///data" and "/data" give "/data"; another URI stays as it is.
std::string channel_place(const std::string& input);

}  // namespace cohort::jobspec
