#include "cohort/jobspec/document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostJsonDepth = 16;

void require_no_zero_byte(const std::string& text) {
  if (const auto at = text.find('\0'); at != std::string::npos)
    throw InvalidInput(fmt::format("a text has a zero byte behind '{}'",
                                   escape_controls(std::string_view(text).substr(0, at))),
                       {.advice = "Leave the zero byte out."});
}

}  // namespace

std::string Source::before(const std::string& path) const {
  if (name.empty()) return "";
  const auto line = lines.find(path);
  return line == lines.end() ? name + ": " : fmt::format("{} line {}: ", name, line->second);
}

Json parse_json_document(std::string_view text) {
  if (text.size() > kMostDocumentBytes)
    throw InvalidInput(fmt::format("the description has {} bytes, more than {}, the most allowed",
                                   text.size(), kMostDocumentBytes));
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&keys](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostJsonDepth)
      throw InvalidInput(
          fmt::format("the description nests lists and objects more than {} deep", kMostJsonDepth));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key || parsed.is_string())
      require_no_zero_byte(parsed.get_ref<const std::string&>());
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw InvalidInput(fmt::format("the key '{}' is given twice",
                                     escape_controls(parsed.get_ref<const std::string&>())));
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, check);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = error.what();
    const auto begin = what.find("] ");
    throw InvalidInput(
        fmt::format("the description is no JSON: {}",
                    escape_controls(begin == what.npos ? what : what.substr(begin + 2))));
  }
  if (!document.is_object())
    throw InvalidInput("the description is no JSON object",
                       {.advice = R"(Send an object, as in {"program": ["./train"]}.)"});
  return document;
}

}  // namespace cohort::jobspec
