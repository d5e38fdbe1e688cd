#pragma once

#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/machine.h"
#include "cohort/jobspec/resolved_job.h"

namespace cohort::jobspec {

// Makes every choice that a description leaves open, and checks that the parts go together: the
// number and size of instances, the words of `cohort run` and of mpirun, the program's words, the
// environment. Throws InvalidInput that names the keys, their values and what is allowed.
// Pure but for machine.version_at_hand, which is asked only where a version was.
ResolvedJob resolve(const JobSpec& spec, const Machine& machine, const Catalogues& catalogues);

}  // namespace cohort::jobspec
