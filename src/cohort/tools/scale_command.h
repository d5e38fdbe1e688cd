#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

struct ScaleArguments {
  std::string job;
  int workers = 0;
  bool no_wait = false;
  double timeout = 60;
};

// Declares the options of `cohort scale`; `arguments` must outlive `app`.
void declare_scale_options(CLI::App& app, ScaleArguments& arguments);

// Carries out `cohort scale JOB N`: makes a running elastic job larger or smaller, and waits until
// it is. Returns the exit code. Throws InvalidInput.
int scale_command(const std::vector<std::string>& words, const std::vector<std::string>& behind);

}  // namespace cohort::tools
