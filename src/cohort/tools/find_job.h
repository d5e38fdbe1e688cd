#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cohort::tools {

// The output folder of the job that a person names: the folder itself, the id of a job under
// ./cohort-output or the beginning of one, if only one begins so; "latest" is the newest of them.
// Nothing where there is none. Throws InvalidInput when several jobs are meant.
std::optional<std::filesystem::path> find_job_folder(const std::string& name);

// The same. Throws InvalidInput that says what was looked for, and which jobs there are.
std::filesystem::path find_job(const std::string& name);

}  // namespace cohort::tools
