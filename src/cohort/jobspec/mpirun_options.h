#pragma once

#include <optional>
#include <string_view>

namespace cohort::jobspec {

// How many words follow this option of Open MPI 4.1's mpirun; nothing for a name that it does not
// know. `name` is without its dashes: mpirun takes one or two. Pure.
std::optional<int> mpirun_option_values(std::string_view name);

}  // namespace cohort::jobspec
