#include "cohort/train/callbacks/callback.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>

namespace cohort::train {

nlohmann::json Callback::save_state() const { return nlohmann::json::object(); }

std::vector<std::pair<std::string, Callback*>> with_state(
    std::span<const std::shared_ptr<Callback>> callbacks) {
  std::vector<std::pair<std::string, Callback*>> result;
  std::map<std::string, int> count;
  for (const auto& callback : callbacks) {
    const std::string name = callback->state_name();
    if (name.empty()) continue;
    const int number = ++count[name];
    result.emplace_back(number == 1 ? name : fmt::format("{}#{}", name, number), callback.get());
  }
  return result;
}

}  // namespace cohort::train
