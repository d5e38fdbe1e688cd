#pragma once

#include <string>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/tools/run_command.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cohort::tools {

// What the command line of `cohort submit` says about a job: an option for every field of a
// description, and those of `cohort run` that a description may have.
class JobFields {
 public:
  // Declares the options; parsing writes into this object. Neither may be used without the other.
  void declare(CLI::App& app);

  // `spec` with what the parsed options say on top of it. Throws InvalidInput.
  jobspec::JobSpec over(jobspec::JobSpec spec) const;

 private:
  std::vector<std::string> settings_;       // "instance_count=2": jobspec::with_setting()
  RunArguments run_;                        // checks the values of run's options
  std::vector<const CLI::Option*> of_run_;  // those that were declared; the app's
};

}  // namespace cohort::tools
