#pragma once

#include <filesystem>

namespace cohort::sdk {

// The folder of this user's own service: COHORT_HOME, else XDG_STATE_HOME/cohort, else
// ~/.local/state/cohort. Throws InvalidInput when none of the variables is set.
std::filesystem::path default_root();

}  // namespace cohort::sdk
