#pragma once

#include <optional>
#include <string>

#include "cohort/launch/job/job.h"

namespace CLI {
class App;
}

namespace cohort::tools {

// What the command line of `cohort run` says about an elastic job, as it says it.
struct ElasticArguments {
  bool elastic = false;
  std::optional<int> least;  // of -n LEAST:MOST
  std::optional<double> lease;
  std::optional<double> timeout;
  std::optional<std::string> discovery_script;
  std::optional<int> max_restarts;  // of each worker where the job is elastic, else of the group
};

// Declares -n, --max-restarts and the options of elastic jobs; parsing writes into `job` and
// `arguments`, which must outlive `app`.
void declare_elastic_options(CLI::App& app, launch::JobOptions& job, ElasticArguments& arguments);

// Brings both together when everything is parsed. Throws InvalidInput for what only an elastic job
// can have and this one is not.
void apply(const ElasticArguments& arguments, launch::JobOptions& job);

}  // namespace cohort::tools
