#pragma once

#include <string>
#include <vector>

#include "cohort/launch/job/job.h"
#include "cohort/tools/elastic_options.h"

namespace CLI {
class App;
}

namespace cohort::tools {

// What the command line of `cohort run` asks for.
struct RunArguments {
  launch::JobOptions job;
  ElasticArguments elastic;
  std::string config;
  bool dry_run = false;
};

// Declares the options of `cohort run` on `app`; parsing writes into `arguments`, which must
// outlive `app`.
void declare_run_options(CLI::App& app, RunArguments& arguments);

// Carries out `cohort run`: `words` is the command line before `--`, `program` what follows it.
// Returns the exit code. Throws InvalidInput.
int run_command(const std::vector<std::string>& words, const std::vector<std::string>& program);

}  // namespace cohort::tools
