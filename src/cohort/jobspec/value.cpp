#include "cohort/jobspec/value.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

constexpr std::size_t kMostShown = 60;  // bytes of a value in a message
constexpr std::size_t kFewKeys = 5;     // a message names all of them

std::string shown(const nlohmann::ordered_json& json) {
  using Json = nlohmann::ordered_json;
  std::string text = json.is_string() ? "'" + json.get<std::string>() + "'"
                                      : json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return escape_controls(text);
}

}  // namespace

std::string Value::text() const {
  if (!json_->is_string()) refuse("must be text", "Put it in quotes.");
  if (json_->get_ref<const std::string&>().empty()) refuse("must not be empty");
  return json_->get<std::string>();
}

std::string Value::word() const {
  if (json_->is_string()) return json_->get<std::string>();
  if (json_->is_number()) return json_->dump();
  throw InvalidInput(fmt::format("{}the value of '{}' is neither text nor a number",
                                 source_->before(path_), escape_controls(path_)),
                     {.advice = "Put it in quotes."});
}

bool Value::yes() const {
  if (!json_->is_boolean()) refuse("must be true or false");
  return json_->get<bool>();
}

int Value::whole(int least, int most) const {
  std::string text = json_->is_string() ? json_->get<std::string>() : json_->dump();
  const bool negative = text.starts_with('-');
  const auto digits = parse_unsigned(std::string_view(text).substr(negative ? 1 : 0));
  const bool is_whole = (json_->is_number_integer() || json_->is_string()) && digits.has_value() &&
                        *digits <= std::numeric_limits<int>::max();
  const std::int64_t number =
      is_whole ? static_cast<std::int64_t>(*digits) * (negative ? -1 : 1) : 0;
  if (!is_whole || number < least || number > most)
    refuse(fmt::format("must be a whole number from {} to {}", least, most));
  return static_cast<int>(number);
}

double Value::number(double more_than, double most) const {
  if (!json_->is_number() || !(json_->get<double>() > more_than) || json_->get<double>() > most)
    refuse(fmt::format("must be a number above {}, at most {}", more_than, most));
  return json_->get<double>();
}

std::vector<std::pair<std::string, Value>> Value::entries() const {
  if (!json_->is_object()) refuse("must be a table of names and values");
  std::vector<std::pair<std::string, Value>> result;
  for (const auto& [key, below] : json_->items())
    result.emplace_back(key, Value(below, path_.empty() ? key : path_ + "." + key, *source_));
  return result;
}

std::vector<Value> Value::elements() const {
  if (!json_->is_array()) refuse("must be a list");
  std::vector<Value> result;
  for (std::size_t i = 0; i < json_->size(); ++i)
    result.emplace_back((*json_)[i], fmt::format("{}[{}]", path_, i), *source_);
  return result;
}

bool Value::is_text() const { return json_->is_string(); }
bool Value::is_array() const { return json_->is_array(); }
bool Value::is_object() const { return json_->is_object(); }

void Value::refuse(const std::string& rule, const std::string& advice) const {
  throw InvalidInput(fmt::format("{}{} is {}, but {}", source_->before(path_),
                                 escape_controls(path_), shown(*json_), rule),
                     {.advice = advice});
}

void Value::refuse_key(const std::string& key, const std::vector<std::string>& known) const {
  const std::string meant = nearest(key, known);
  std::string advice = "See docs/jobfile.md for the keys.";
  if (!meant.empty())
    advice = fmt::format("Did you mean '{}'?", meant);
  else if (known.size() <= kFewKeys)
    advice = fmt::format("There are: {}.", join(known, ", "));
  throw InvalidInput(
      fmt::format("{}unknown key '{}'", source_->before(path_), escape_controls(path_)),
      {.advice = std::move(advice)});
}

}  // namespace cohort::jobspec
