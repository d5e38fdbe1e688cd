#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/resolved_job.h"

// A job's description as JSON: the HTTP API, the Python SDK, files on disk. Pure functions.
namespace cohort::jobspec {

// The long names of the options of `cohort run`, without dashes: they are keys of a description,
// too, and end in JobSpec::run_options. Given by the caller, since `tools` owns the command line.
struct KnownOptions {
  std::vector<std::string> names;
};

// Throws InvalidInput for a text of more than 1 MiB, nested too deeply, that is no JSON object, or
// that says something unknown or out of range: it names the path ("distributions.mpi.enabled"), the
// value and what is allowed, and for an unknown key the nearest known one.
JobSpec spec_from_json(std::string_view text, const KnownOptions& known);

// Fields that have their default are left out; spec_from_json() gives the same value again.
std::string to_json(const JobSpec& spec);

// The keys of a description, in the order of the reference (docs/jobfile.md), and other spellings
// of them that are taken, as {"train_instance_count", "instance_count"}.
const std::vector<std::string>& field_names();
const std::vector<std::pair<std::string, std::string>>& field_aliases();

// What is kept of a job on disk. resolved_from_json() is for texts that to_json() wrote: it throws
// InvalidInput for others, and takes every run option as known.
std::string to_json(const ResolvedJob& job);
ResolvedJob resolved_from_json(std::string_view text);

}  // namespace cohort::jobspec
