#pragma once

#include "cohort/engine/attempt_folder.h"

namespace cohort::engine {

// What is known of an attempt, by its folder alone; `live`: a launcher that runs is asked, which
// takes up to 2 s, for what it does not write down at once (the members of an elastic job).
// What lies in the folder and is no record of a launcher counts as if it were not there.
AttemptStatus attempt_status(const AttemptFolder& folder, bool live);

// Where the attempt's launcher can be asked; "": nowhere.
std::string control_socket(const AttemptFolder& folder);

// What the launcher has written down, whether it still lives or not: starting where that is
// nothing, unknown where there is no claim.
AttemptStatus recorded_status(const AttemptFolder& folder);

}  // namespace cohort::engine
