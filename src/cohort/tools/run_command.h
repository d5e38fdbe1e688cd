#pragma once

#include <string>

#include "cohort/launch/job/job.h"
#include "cohort/tools/elastic_options.h"
#include "cohort/tools/run_words.h"

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
  bool dashboard = false;
};

// Declares the options of `cohort run`; parsing writes into `arguments`, which must outlive `app`.
void declare_run_options(CLI::App& app, RunArguments& arguments);

// What these words ask for: the job file's first, the command line's on top of them. A file that
// they name (--hostfile) is read. Throws InvalidInput.
RunArguments parse_run_words(const RunWords& words);

}  // namespace cohort::tools
