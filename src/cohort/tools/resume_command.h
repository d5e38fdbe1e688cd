#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

struct ResumeArguments {
  std::string job;
};

// Declares the options of `cohort resume`; `arguments` must outlive `app`.
void declare_resume_options(CLI::App& app, ResumeArguments& arguments);

// Carries out `cohort resume JOB`: runs a job whose launcher is gone again, as it was asked to be,
// in its folder and under its id; its tasks learn that they go on (COHORT_RESUME). Returns the exit
// code. Throws InvalidInput for a job that runs, one that succeeded, and one that is not known.
int resume_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
