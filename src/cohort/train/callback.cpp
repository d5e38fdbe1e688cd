#include "cohort/train/callback.h"

#include <nlohmann/json.hpp>

namespace cohort::train {

nlohmann::json Callback::save_state() const { return nlohmann::json::object(); }

}  // namespace cohort::train
