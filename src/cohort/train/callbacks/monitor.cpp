#include "cohort/train/callbacks/monitor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::train {

bool larger_is_better(const std::string& name) {
  std::istringstream words(name);
  for (std::string word; std::getline(words, word, '_');)
    for (const char* good : {"accuracy", "auc", "f1", "precision", "recall"})
      if (word == good) return true;
  return name.find("accuracy") != std::string::npos;
}

Monitor::Monitor(Watch watch)
    : watch_(std::move(watch)),
      larger_(watch_.better == Watch::Better::larger ||
              (watch_.better == Watch::Better::by_name && larger_is_better(watch_.name))),
      best_(larger_ ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::infinity()) {}

bool Monitor::improved(const Logs& logs) {
  auto found = logs.find(watch_.name);
  if (found == logs.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : logs) names.push_back(name);
    throw InvalidInput(
        fmt::format("an epoch has no '{}' to watch; it has {}", watch_.name,
                    fmt::join(names, ", ")),
        {.advice = "Watch one of those, or give fit() validation data for the val_ ones."});
  }
  double gain = larger_ ? found->second - best_ : best_ - found->second;
  if (!(gain > watch_.min_delta)) {
    ++since_best_;
    return false;
  }
  best_ = found->second;
  since_best_ = 0;
  return true;
}

// JSON has no infinity: before the first epoch there is no best.
nlohmann::json Monitor::save() const {
  nlohmann::json state{{"since_best", since_best_}};
  if (std::abs(best_) != std::numeric_limits<double>::infinity()) state["best"] = best_;
  return state;
}

void Monitor::load(const nlohmann::json& state) {
  since_best_ = state.value("since_best", since_best_);
  best_ = state.value("best", best_);
}

}  // namespace cohort::train
