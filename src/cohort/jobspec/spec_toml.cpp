#include "cohort/jobspec/spec_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/document.h"
#include "cohort/jobspec/read_spec.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

std::string read_limited(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostDocumentBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open())
    throw SystemError(fmt::format("cannot read the job file '{}'", path.string()), errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// JSON's quoting is TOML's, but for the one control character that JSON leaves as it is.
std::string toml_text(const std::string& text) {
  std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at; (at = quoted.find('\x7f')) != std::string::npos;)
    quoted.replace(at, 1, "\\u007f");
  return quoted;
}

std::string toml_key(const std::string& key) {
  const auto is_bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), is_bare) ? key : toml_text(key);
}

// On one line.
std::string toml_value(const Json& value) {
  std::vector<std::string> parts;
  switch (value.type()) {
    case Json::value_t::string:
      return toml_text(value.get<std::string>());
    case Json::value_t::array:
      for (const Json& element : value) parts.push_back(toml_value(element));
      return "[" + join(parts, ", ") + "]";
    case Json::value_t::object:
      for (const auto& [key, below] : value.items())
        parts.push_back(fmt::format("{} = {}", toml_key(key), toml_value(below)));
      return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
    case Json::value_t::null:
      throw InvalidInput("TOML has no null", {.advice = "Leave that value out, or use JSON."});
    case Json::value_t::number_unsigned:
      if (value.get<std::uint64_t>() > INT64_MAX)
        throw InvalidInput(fmt::format("{} is too large a number for TOML", value.dump()),
                           {.advice = "Write it as text, or use JSON."});
      return value.dump();
    default:
      return value.dump();
  }
}

}  // namespace

JobSpec spec_from_toml(std::string_view text, const std::string& name, const KnownOptions& known) {
  Source source{.name = name, .lines = {}};
  const Json document = parse_toml_document(text, source);
  return read_spec(document, source, &known);
}

JobSpec read_job_file(const std::filesystem::path& path, const KnownOptions& known) {
  if (!std::filesystem::exists(path))
    throw InvalidInput(fmt::format("job file '{}' not found", path.string()),
                       {.advice = "Check the path."});
  if (std::filesystem::is_directory(path))
    throw InvalidInput(fmt::format("job file '{}' is a folder", path.string()),
                       {.advice = "Name the file itself."});
  return spec_from_toml(read_limited(path), path.string(), known);
}

JobSpec with_setting(const JobSpec& spec, std::string_view setting, const KnownOptions& known) {
  const auto equals = setting.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw InvalidInput(
        fmt::format("--set '{}' is not of the form KEY=VALUE", escape_controls(setting)),
        {.advice = "Write it as in --set hyperparameters.lr=0.1."});
  const std::string key(trim(setting.substr(0, equals)));
  const std::string value(trim(setting.substr(equals + 1)));
  Source source{.name = "--set", .lines = {}};
  Json changed;
  try {
    changed = parse_toml_document(fmt::format("{} = {}\n", key, value), source);
  } catch (const InvalidInput&) {  // a word without quotes
    source.lines.clear();
    changed = parse_toml_document(fmt::format("{} = {}\n", key, toml_text(value)), source);
  }
  // One entry of a table joins the others there; anything else replaces its field.
  Json document = write_spec(spec);
  for (const auto& [name, below] : changed.items()) {
    std::string field = name;
    std::replace(field.begin(), field.end(), '-', '_');
    for (const auto& [alias, known_as] : field_aliases())
      if (alias == field) field = known_as;
    if (below.is_object() && key.find('.') != std::string::npos && document.contains(field) &&
        document[field].is_object())
      document[field].merge_patch(below);
    else
      document[field] = below;
  }
  source.lines.clear();
  return read_spec(document, source, &known);
}

std::string to_toml(const JobSpec& spec) {
  const Json document = write_spec(spec);
  std::string values, tables;
  for (const auto& [key, value] : document.items()) {
    const bool is_table =
        value.is_object() && (key == "hyperparameters" || key == "inputs" || key == "env" ||
                              key == "tags" || key == "distributions");
    if (!is_table) {
      values += fmt::format("{} = {}\n", toml_key(key), toml_value(value));
      continue;
    }
    tables += fmt::format("\n[{}]\n", toml_key(key));
    for (const auto& [name, below] : value.items())
      tables += fmt::format("{} = {}\n", toml_key(name), toml_value(below));
  }
  return values + tables;
}

void anchor_paths(JobSpec& spec, const std::filesystem::path& folder) {
  const auto anchor = [&folder](std::string& path) {
    if (!path.empty() && path.find("://") == std::string::npos)
      path = (folder / path).lexically_normal().string();
  };
  anchor(spec.source_dir);
  if (spec.engine == "kubernetes") return;  // the rest lies in an image and on volumes
  anchor(spec.output);
  for (auto& [channel, place] : spec.inputs) anchor(place);
  if (!spec.source_dir.empty() || !spec.source.empty()) return;
  anchor(spec.entry_point);
  if (!spec.program.empty() && spec.program.front().find('/') != std::string::npos)
    anchor(spec.program.front());
}

}  // namespace cohort::jobspec
