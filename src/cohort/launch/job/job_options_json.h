#pragma once

#include <string>
#include <string_view>

#include "cohort/launch/job/job.h"

// What a job was asked to be, as OUTPUT/job-options.json keeps it for `cohort resume`. Pure
// functions.
namespace cohort::launch {

inline constexpr const char* kJobOptionsFile = "job-options.json";

std::string to_json(const JobOptions& options);

// Throws InvalidInput that names what is missing or of the wrong kind; `source` is where the text
// comes from, for messages. Keys that this version does not know are an error: they ask for
// something that would not happen.
JobOptions job_options_from_json(std::string_view text, const std::string& source);

}  // namespace cohort::launch
