#pragma once

#include <filesystem>
#include <string>

#include "cohort/jobspec/resolve.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/tools/run_words.h"

// A job file for `cohort run`.
namespace cohort::tools {

// The options of `cohort run` that are keys of a description.
jobspec::KnownOptions known_run_options();

// A description: a job file, or JSON where the name ends in .json. Throws InvalidInput that names the
// file.
jobspec::JobSpec read_description(const std::string& file);

// This machine, for resolve(): the cores, memory and GPUs that this process may use.
jobspec::Machine this_machine();

// The job file's words: the same choices that the service would make (resolve()), as words of the
// command line and of the program. What only a service can do with (queue, priority, tags ...) is
// passed over. A program in `words` replaces the file's. Notes go to standard error.
// Throws InvalidInput that names the file.
void add_job_file(const std::filesystem::path& path, RunWords& words);

}  // namespace cohort::tools
