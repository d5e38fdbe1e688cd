#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cohort/base/deadline.h"

namespace cohort::tools {

// What is known of the job whose folder this is: as its launcher tells, where one answers, else as
// its job.json says. `launcher_answers` tells which. Throws InvalidInput when job.json is not there
// or broken, or could be another user's (base/owned_files.h).
struct KnownJob {
  nlohmann::ordered_json record;
  bool launcher_answers = false;
  std::string trouble;  // why not, where the launcher may well live; "": it is gone, or has ended
  int left_processes = 0;  // of a job whose launcher is gone
};
KnownJob look_at_job(const std::filesystem::path& output, Deadline deadline);

// Sends the launcher of a job a request and returns its answer. Throws InvalidInput when it refuses
// (with its words) or when no launcher answers.
nlohmann::ordered_json request(const std::filesystem::path& output,
                               const nlohmann::ordered_json& what, Deadline deadline);

}  // namespace cohort::tools
