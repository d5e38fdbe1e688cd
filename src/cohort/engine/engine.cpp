#include "cohort/engine/engine.h"

#include <array>

namespace cohort::engine {

bool has_ended(AttemptState state) {
  return state == AttemptState::succeeded || state == AttemptState::failed ||
         state == AttemptState::stopped || state == AttemptState::lost;
}

std::string_view name_of(AttemptState state) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "unknown", "starting", "running", "stopping", "succeeded", "failed", "stopped", "lost"};
  return kNames.at(static_cast<std::size_t>(state));
}

}  // namespace cohort::engine
