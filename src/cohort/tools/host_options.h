#pragma once

#include <string>
#include <vector>

#include "cohort/launch/job/job.h"

namespace CLI {
class App;
}

namespace cohort::tools {

// Declares the options of `cohort run` about hosts; parsing writes into `job`, which must outlive
// `app`.
void declare_host_options(CLI::App& app, launch::JobOptions& job);

// Those options again, each followed by its value; those that have their defaults are left out.
std::vector<std::string> host_words(const launch::JobOptions& job);

}  // namespace cohort::tools
