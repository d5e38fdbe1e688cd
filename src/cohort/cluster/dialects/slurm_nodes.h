#pragma once

#include <string>
#include <string_view>
#include <vector>

// Slurm's two short notations. Pure functions; both throw InvalidInput that names the text for one
// that is malformed or means more than 100,000 entries.
namespace cohort::cluster {

// "node[01-03,7],b2" -> node01 node02 node03 node7 b2; several brackets in a name multiply.
std::vector<std::string> expand_slurm_nodelist(std::string_view text);

// "2(x3),1" -> 2 2 2 1.
std::vector<int> expand_slurm_counts(std::string_view text);

}  // namespace cohort::cluster
