#pragma once

#include <string>
#include <vector>

#include "cohort/jobspec/resolved_job.h"

// What a job asks of Slurm. Pure functions.
namespace cohort::engine {

// Options of sbatch, a word each: --job-name, --ntasks, --cpus-per-task, --mem-per-cpu, --gres,
// --time, --partition, what every job of Cohort has (--requeue, --signal), then the job's own
// engine_options. Throws InvalidInput for engine_options that Cohort decides itself.
std::vector<std::string> slurm_options(const jobspec::ResolvedJob& job, const std::string& name);

// A whole script for sbatch that runs `command` (words of `cohort run`), and goes on with
// `cohort resume` when Slurm starts it again. `env` are the job's variables.
std::string slurm_script(const jobspec::ResolvedJob& job, const std::vector<std::string>& command);

}  // namespace cohort::engine
