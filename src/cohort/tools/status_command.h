#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

struct StatusArguments {
  std::string job;
  bool json = false;
  bool watch = false;
};

// Declares the options of `cohort status`; `arguments` must outlive `app`.
void declare_status_options(CLI::App& app, StatusArguments& arguments);

// Carries out `cohort status JOB`: what a job does now, or how it ended. Returns the exit code.
// Throws InvalidInput.
int status_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
