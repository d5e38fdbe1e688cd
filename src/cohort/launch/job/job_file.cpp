#include "cohort/launch/job/job_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/launch/job/job_file_limits.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kMostJobFileBytes = std::size_t{1} << 20;

std::string place(const std::filesystem::path& path, const toml::source_region& source) {
  return fmt::format("{} line {}", path.string(), source.begin.line);
}

// A number or text as the command line would have it.
std::string as_text(const toml::node& node, const std::string& where, std::string_view key) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  throw InvalidInput(fmt::format("{}: the value of '{}' is neither text nor a number", where, key),
                     {.advice = "Put it in quotes."});
}

void add_option(const std::filesystem::path& path, const std::string& key, const toml::node& node,
                std::vector<std::string>& arguments) {
  std::string where = place(path, node.source());
  std::string flag = "--" + key;
  if (auto yes = node.value_exact<bool>()) {
    arguments.push_back(*yes ? flag : flag + "=false");
  } else if (const toml::array* list = node.as_array()) {
    for (const auto& element : *list) {
      arguments.push_back(flag);
      arguments.push_back(as_text(element, where, key));
    }
  } else if (const toml::table* table = node.as_table()) {
    for (const auto& [name, value] : *table) {
      arguments.push_back(flag);
      arguments.push_back(fmt::format(
          "{}={}", name.str(),
          as_text(value, place(path, value.source()), fmt::format("{}.{}", key, name.str()))));
    }
  } else {
    arguments.push_back(flag);
    arguments.push_back(as_text(node, where, key));
  }
}

std::vector<std::string> read_program(const std::filesystem::path& path, const toml::node& node) {
  std::string where = place(path, node.source());
  std::vector<std::string> program;
  if (const toml::array* list = node.as_array())
    for (const auto& element : *list) program.push_back(as_text(element, where, "program"));
  else
    program.push_back(as_text(node, where, "program"));
  if (program.size() == 1 && program.front().find(' ') != std::string::npos)
    throw InvalidInput(fmt::format("{}: program '{}' holds spaces", where, program.front()),
                       {.advice = R"(Write it as an array: program = ["python3", "train.py"])"});
  return program;
}

std::string read_limited(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostJobFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open())
    throw SystemError(fmt::format("cannot read the job file '{}'", path.string()), errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostJobFileBytes)
    throw InvalidInput(fmt::format("job file '{}' has more than {} bytes, the most allowed",
                                   path.string(), kMostJobFileBytes));
  return text;
}

toml::table parse(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path))
    throw InvalidInput(fmt::format("job file '{}' not found", path.string()),
                       {.advice = "Check the path given to --config."});
  if (std::filesystem::is_directory(path))
    throw InvalidInput(fmt::format("job file '{}' is a folder", path.string()),
                       {.advice = "Name the file itself with --config."});
  const std::string text = read_limited(path);
  require_shallow_toml(text, path);
  try {
    return toml::parse(text, path.string());
  } catch (const toml::parse_error& error) {
    throw InvalidInput(fmt::format("{} column {}: {}", place(path, error.source()),
                                   error.source().begin.column, error.description()));
  }
}

}  // namespace

JobFile read_job_file(const std::filesystem::path& path, const std::vector<std::string>& known) {
  JobFile file;
  for (const auto& [name, node] : parse(path)) {
    std::string key(name.str());
    std::replace(key.begin(), key.end(), '_', '-');
    if (key == "program") {
      file.program = read_program(path, node);
      continue;
    }
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string meant = nearest(key, known);
      throw InvalidInput(
          fmt::format("{}: unknown key '{}'", place(path, name.source()), name.str()),
          {.advice = meant.empty() ? "See `cohort run --help` for the keys."
                                   : fmt::format("Did you mean '{}'?", meant)});
    }
    add_option(path, key, node, file.arguments);
  }
  return file;
}

}  // namespace cohort::launch
