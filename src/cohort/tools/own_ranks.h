#pragma once

#include <map>
#include <string>
#include <vector>

namespace cohort::tools {

// Starts `ranks` workers of this very program with these words and `--as-rank`, through the
// launcher, shows what rank 0 prints, and returns the job's exit code. The logs stay, under the
// system's temporary folder, only when it failed. `environment` is set for each of them.
int run_own_ranks(int ranks, std::vector<std::string> words,
                  const std::map<std::string, std::string>& environment = {});

}  // namespace cohort::tools
