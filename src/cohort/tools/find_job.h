#pragma once

#include <filesystem>
#include <string>

namespace cohort::tools {

// The output folder of the job that a person names: the folder itself, the id of a job under
// ./cohort-output or the beginning of one, if only one begins so; "latest" is the newest of them.
// Throws InvalidInput that says what was looked for, and which jobs there are.
std::filesystem::path find_job(const std::string& name);

}  // namespace cohort::tools
