#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/resolved_job.h"

namespace cohort::jobspec {

// What a job will run on.
struct Machine {
  Size size;      // of this machine, or of one host
  int hosts = 1;  // how many machines of that size the engine has
  // The version of a Python package that the python3 at hand has, of Python itself for "python"; ""
  // when there is none. runtime_probe.h has one. Empty: versions are not compared.
  std::function<std::string(std::string_view package)> version_at_hand;
};

// Makes every choice that a description leaves open, and checks that the parts go together: the
// number and size of instances, the words of `cohort run` and of mpirun, the program's words, the
// environment. Throws InvalidInput that names the keys, their values and what is allowed.
// Pure but for machine.version_at_hand, which is asked only where a version was.
ResolvedJob resolve(const JobSpec& spec, const Machine& machine, const Catalogues& catalogues);

}  // namespace cohort::jobspec
