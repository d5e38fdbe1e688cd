#pragma once

#include <string>

#include "cohort/ps/model/model_spec.h"

namespace cohort::ps {

// Empty when equal; otherwise one clause that names the first difference with both values:
// "conv1.weight has 400 elements on worker/0 and 800 on worker/1".
std::string difference(const ModelSpec& first, const std::string& first_name,
                       const ModelSpec& second, const std::string& second_name);

}  // namespace cohort::ps
