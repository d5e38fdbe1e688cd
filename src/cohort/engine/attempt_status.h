#pragma once

#include "cohort/engine/attempt_folder.h"

namespace cohort::engine {

// What is known of an attempt, by its folder alone; `live`: a launcher that runs is asked, which
// takes up to 2 s, for what it does not write down at once (the members of an elastic job).
AttemptStatus attempt_status(const AttemptFolder& folder, bool live);

}  // namespace cohort::engine
