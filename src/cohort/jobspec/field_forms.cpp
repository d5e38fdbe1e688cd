#include "cohort/jobspec/field_forms.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

constexpr std::size_t kMostNameBytes = 100;
constexpr std::uint64_t kMostSeconds = 10ull * 365 * 24 * 3600;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_part_of_name(char c) {
  return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

void require_name(const Value& at, const std::string& name) {
  if (!name.empty() && name.size() <= kMostNameBytes &&
      (is_letter(name.front()) || is_digit(name.front())) &&
      std::all_of(name.begin(), name.end(), is_part_of_name))
    return;
  at.refuse(
      "a name has letters, digits, '.', '_' and '-', at most 100, and begins with a letter or a "
      "digit");
}

bool is_option_name(std::string_view name) {
  return !name.empty() && (is_letter(name.front()) || name.front() == '_') &&
         std::all_of(name.begin(), name.end(), is_part_of_name);
}

void require_option_name(const Value& at, const std::string& name) {
  if (!is_option_name(name))
    at.refuse(
        "a hyperparameter's name has letters, digits, '_', '-' and '.', and begins with a letter "
        "or '_'");
}

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  const auto seconds_of = [](char unit) -> std::uint64_t {
    switch (unit) {
      case 'd':
        return 24 * 3600;
      case 'h':
        return 3600;
      case 'm':
        return 60;
      case 's':
        return 1;
      default:
        return 0;
    }
  };
  std::uint64_t total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = parse_unsigned(text.substr(0, end));
    const std::uint64_t unit = end == text.size() ? 1 : seconds_of(text[end]);
    if (!number || unit == 0 || *number > kMostSeconds) return std::nullopt;
    total += *number * unit;
    if (total > kMostSeconds) return std::nullopt;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::chrono::seconds(static_cast<std::int64_t>(total));
}

nlohmann::ordered_json json_object(const NamedJson& named) {
  using Json = nlohmann::ordered_json;
  Json object;
  for (const auto& [name, text] : named) object[name] = Json::parse(text);
  return object;
}

}  // namespace cohort::jobspec
