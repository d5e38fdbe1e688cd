#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cohort::jobspec {

// The long names of the options of `cohort run`, without dashes: they are keys of a description,
// too, and end in JobSpec::run_options. Given by the caller, since `tools` owns the command line.
struct KnownOptions {
  std::vector<std::string> names;
};

// The keys of a description, in the order of the reference (docs/jobfile.md), and other spellings
// of them that are taken, as {"train_instance_count", "instance_count"}.
const std::vector<std::string>& field_names();
const std::vector<std::pair<std::string, std::string>>& field_aliases();

}  // namespace cohort::jobspec
