#pragma once

#include <memory>

#include "cohort/collective/backend/backend.h"

namespace cohort::collective {

// A group of one rank: every collective copies in to out, reductions with their scales applied.
std::unique_ptr<Backend> make_solo_backend();

}  // namespace cohort::collective
