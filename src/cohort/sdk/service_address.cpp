#include "cohort/sdk/service_address.h"

#include <cstdlib>

#include "cohort/base/error.h"

namespace cohort::sdk {

std::filesystem::path default_root() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  if (auto home = variable("COHORT_HOME"); !home.empty()) return home;
  if (auto state = variable("XDG_STATE_HOME"); !state.empty()) return state / "cohort";
  if (auto home = variable("HOME"); !home.empty()) return home / ".local/state/cohort";
  throw InvalidInput("neither COHORT_HOME, XDG_STATE_HOME nor HOME is set",
                     {.advice = "Set COHORT_HOME to the folder in which jobs are to be kept."});
}

}  // namespace cohort::sdk
