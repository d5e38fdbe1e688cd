#include "cohort/jobspec/read_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/jobspec/field_forms.h"
#include "cohort/jobspec/fields.h"
#include "cohort/jobspec/value.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// The one name of a key: a field's with '_', a run option's with '-'.
std::string canonical(const std::string& key) {
  std::string name = with(key, '-', '_');
  for (const auto& [alias, field] : field_aliases())
    if (alias == name) return field;
  return find_field(name) != nullptr ? name : with(key, '_', '-');
}

// What words.h can turn into words of a command line.
void require_option_value(const Value& value) {
  if (value.json().is_boolean()) return;
  if (value.is_array()) {
    for (const Value& element : value.elements()) element.word();
  } else if (value.is_object()) {
    for (const auto& [name, below] : value.entries()) below.word();
  } else {
    value.word();
  }
}

void read_run_option(const std::string& name, const std::string& key, const Value& value,
                     const KnownOptions* known, JobSpec& spec) {
  if (known != nullptr &&
      std::find(known->names.begin(), known->names.end(), name) == known->names.end()) {
    std::vector<std::string> all = field_names();
    for (const auto& [alias, field] : field_aliases()) all.push_back(alias);
    for (const auto& option : known->names) all.push_back(with(option, '-', '_'));
    value.refuse_key(with(key, '-', '_'), all);
  }
  require_option_value(value);
  std::erase_if(spec.run_options, [&name](const auto& option) { return option.first == name; });
  spec.run_options.emplace_back(name, value.json().dump());
}

}  // namespace

JobSpec read_spec(const Json& document, const Source& source, const KnownOptions* known,
                  JobSpec spec) {
  std::map<std::string, Value> seen;
  for (const auto& [key, value] : Value(document, "", source).entries()) {
    const std::string name = canonical(key);
    const auto [earlier, is_first] = seen.emplace(name, value);
    if (!is_first) {
      if (earlier->second.json() == value.json()) continue;
      throw InvalidInput(fmt::format("{}'{}' and '{}' mean the same and have different values",
                                     source.before(key), earlier->second.path(), key),
                         {.advice = "Leave one of them out."});
    }
    if (const Field* field = find_field(name); field != nullptr)
      field->read(value, spec);
    else
      read_run_option(name, key, value, known, spec);
  }
  return spec;
}

Json write_spec(const JobSpec& spec) {
  Json document = Json::object();
  for (const Field& field : all_fields())
    if (Json value = field.write(spec); !value.is_null()) document[field.name] = std::move(value);
  for (const auto& [name, text] : spec.run_options)
    document[with(name, '-', '_')] = Json::parse(text);
  return document;
}

}  // namespace cohort::jobspec
