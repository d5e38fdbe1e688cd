#pragma once

#include <string>
#include <string_view>

#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/known_names.h"
#include "cohort/jobspec/resolved_job.h"

// A job's description as JSON: the HTTP API, the Python SDK, files on disk. Pure functions.
namespace cohort::jobspec {

// Throws InvalidInput for a text of more than 1 MiB, nested too deeply, that is no JSON object, or
// that says something unknown or out of range: it names the path ("distributions.mpi.enabled"), the
// value and what is allowed, and for an unknown key the nearest known one.
JobSpec spec_from_json(std::string_view text, const KnownOptions& known);

// Fields that have their default are left out; spec_from_json() gives the same value again.
std::string to_json(const JobSpec& spec);

// What is kept of a job on disk. resolved_from_json() is for texts that to_json() wrote: it throws
// InvalidInput for others, and takes every run option as known.
std::string to_json(const ResolvedJob& job);
ResolvedJob resolved_from_json(std::string_view text);

}  // namespace cohort::jobspec
