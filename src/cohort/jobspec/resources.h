#pragma once

#include <string>
#include <vector>

#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/machine.h"

namespace cohort::jobspec {

// Internal to jobspec: how large an instance of a job is.
struct Resources {
  Size asked;             // what the description says
  Size given;             // what the queue reserves; less than asked only of a platform's type
  bool was_said = false;  // the description says something about the size
  std::string note;       // a sentence where less is given; "" otherwise
};

// `least` is the number of instances with which the job can begin. Throws InvalidInput: an unknown
// instance type (with the nearest one), one of Cohort's own sizes beyond the machine, any beyond it
// with strict_resources. Pure.
Resources choose_resources(const JobSpec& spec, int least, const Machine& machine,
                           const Catalogues& catalogues);

// Which Python and frameworks the program gets, and a note where that is another version than was
// asked for. Asks machine.version_at_hand only then.
RuntimeEnvironment choose_runtime(const JobSpec& spec, const Machine& machine,
                                  const Catalogues& catalogues, std::vector<std::string>& notes);

}  // namespace cohort::jobspec
