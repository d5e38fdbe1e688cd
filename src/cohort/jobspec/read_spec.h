#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cohort/jobspec/document.h"
#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/known_names.h"

namespace cohort::jobspec {

// Internal to jobspec: a document, read on top of `spec`. `known` null: every key that is no field
// is a run option. Throws InvalidInput.
JobSpec read_spec(const nlohmann::ordered_json& document, const Source& source,
                  const KnownOptions* known, JobSpec spec = {});

// The fields that differ from their defaults, in the order of the reference, then run options.
nlohmann::ordered_json write_spec(const JobSpec& spec);

}  // namespace cohort::jobspec
