#pragma once

#include <string>

#include "cohort/ps/model/model_spec.h"

namespace cohort::ps {

// JSON, the same text for equal specs. Throws InvalidInput where a name is not UTF-8.
std::string to_text(const ModelSpec& spec);

// Throws InvalidInput for anything inconsistent (overlapping parts, groups that do not exist, sizes
// over the limits of model_spec_checks.h): servers read it from peers.
ModelSpec parse_model_spec(const std::string& text);

}  // namespace cohort::ps
