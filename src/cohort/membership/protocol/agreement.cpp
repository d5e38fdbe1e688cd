#include "cohort/membership/protocol/agreement.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "cohort/base/text.h"

namespace cohort::membership {
namespace {

using nlohmann::json;

constexpr std::size_t kMostShown = 8;
constexpr std::size_t kLongestValue = 200;

std::string show(const json* value) {
  if (value == nullptr) return "not given";
  std::string text = value->dump();
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "...";
  return text;
}

const json* find(const json& object, const std::string& key) {
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

void compare(const std::string& name, const json* here, const json* elsewhere,
             std::vector<std::string>& differences) {
  if (here && elsewhere && *here == *elsewhere) return;
  if (!here || !elsewhere || !here->is_object() || !elsewhere->is_object()) {
    differences.push_back(
        fmt::format("'{}' is {} here, but {} elsewhere", name, show(here), show(elsewhere)));
    return;
  }
  auto inside = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  for (const auto& [key, value] : here->items())
    compare(inside(key), &value, find(*elsewhere, key), differences);
  for (const auto& [key, value] : elsewhere->items())
    if (!here->contains(key)) compare(inside(key), nullptr, &value, differences);
}

}  // namespace

std::string describe_difference(const std::string& here, const std::string& elsewhere) {
  json mine = json::parse(here, nullptr, false);
  json theirs = json::parse(elsewhere, nullptr, false);
  if (!mine.is_object() || !theirs.is_object()) {
    if (here == elsewhere) return "";
    return fmt::format("it is {} here, but {} elsewhere", here, elsewhere);
  }
  std::vector<std::string> differences;
  compare("", &mine, &theirs, differences);
  if (differences.size() > kMostShown) {
    std::size_t more = differences.size() - kMostShown;
    differences.resize(kMostShown);
    differences.push_back(fmt::format("and {} more", more));
  }
  return join(differences, "; ");
}

}  // namespace cohort::membership
