#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/known_names.h"

// A job's description as TOML: the job file of `cohort run`, `submit` and `job check`.
namespace cohort::jobspec {

// The same keys, values and checks as spec_from_json(), and `-` and `_` are alike in keys. Messages
// name file and line. Throws InvalidInput, SystemError where the file cannot be read.
JobSpec read_job_file(const std::filesystem::path& path, const KnownOptions& known);

// The same for text that came another way; `name` stands for the file in messages. Pure.
JobSpec spec_from_toml(std::string_view text, const std::string& name, const KnownOptions& known);

// Changes one field: "instance_count=2", "hyperparameters.lr=0.1", "tags.team=vision". The value is
// TOML where it reads as such, and text otherwise. Throws InvalidInput. Pure.
JobSpec with_setting(const JobSpec& spec, std::string_view setting, const KnownOptions& known);

// A job file that says the same; fields that have their default are left out.
std::string to_toml(const JobSpec& spec);

// Paths that are relative to `folder` (the client's current one) made absolute: source_dir, output,
// the inputs that are no URI; without source_dir also entry_point, and a program that is named by a
// path.
void anchor_paths(JobSpec& spec, const std::filesystem::path& folder);

}  // namespace cohort::jobspec
