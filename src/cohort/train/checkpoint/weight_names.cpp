#include "cohort/train/checkpoint/weight_names.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

std::size_t stars_of(std::string_view pattern) {
  return static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), '*'));
}

// What each '*' stands for, where the pattern matches the whole of `text`; the shortest text for
// the first ones. Only the last '*' gives way, which is enough: a match that takes the first place
// for each piece of the pattern leaves the most text to the rest.
std::optional<std::vector<std::string_view>> match_name(std::string_view pattern,
                                                        std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    if (pattern != text) return std::nullopt;
    return parts;
  }
  if (!text.starts_with(pattern.substr(0, star))) return std::nullopt;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  while ((star = pattern.find('*')) != std::string_view::npos) {
    const std::size_t found = text.find(pattern.substr(0, star));
    if (found == std::string_view::npos) return std::nullopt;
    parts.push_back(text.substr(0, found));
    text.remove_prefix(found + star);
    pattern.remove_prefix(star + 1);
  }
  if (!text.ends_with(pattern)) return std::nullopt;
  parts.push_back(text.substr(0, text.size() - pattern.size()));
  return parts;
}

std::string fill_stars(std::string_view pattern, const std::vector<std::string_view>& parts) {
  std::string name;
  std::size_t next = 0;
  for (const char letter : pattern) {
    if (letter == '*')
      name += parts.at(next++);
    else
      name += letter;
  }
  return name;
}

}  // namespace

WeightNames::WeightNames(WeightMapping mapping) : mapping_(std::move(mapping)) {
  for (const auto& [file, module] : mapping_.rename)
    if (stars_of(module) > stars_of(file))
      throw InvalidInput(
          fmt::format("the rename '{}' to '{}' has more '*' on the right than on the left", file,
                      module),
          {.advice = "Give each '*' of the module's name one in the file's."});
}

std::optional<std::string> WeightNames::module_name(std::string_view file_name) const {
  if (file_name.starts_with(mapping_.prefix)) file_name.remove_prefix(mapping_.prefix.size());
  for (const auto& [file, module] : mapping_.rename) {
    const auto parts = match_name(file, file_name);
    if (!parts) continue;
    if (module.empty()) return std::nullopt;
    return fill_stars(module, *parts);
  }
  return std::string(file_name);
}

std::string WeightNames::file_name(std::string_view module_name) const {
  std::string name(module_name);
  for (const auto& [file, module] : mapping_.rename) {
    if (module.empty() || stars_of(module) != stars_of(file)) continue;
    const auto parts = match_name(module, module_name);
    if (!parts) continue;
    name = fill_stars(file, *parts);
    break;
  }
  name = mapping_.prefix + name;
  if (this->module_name(name) != module_name)
    throw InvalidInput(
        fmt::format("the module's '{}' would be written as '{}', which is not read as it again",
                    module_name, name),
        {.advice = "Give the mapping renames that lead both ways, with as many '*' on each side."});
  return name;
}

bool WeightNames::is_transposed(std::string_view module_name) const {
  return std::any_of(
      mapping_.transposed.begin(), mapping_.transposed.end(),
      [&](const std::string& pattern) { return match_name(pattern, module_name).has_value(); });
}

}  // namespace cohort::train
