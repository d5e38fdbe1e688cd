#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// Internal to jobspec: a description before it is read, the same for TOML and JSON. Pure functions.
namespace cohort::jobspec {

inline constexpr std::size_t kMostDocumentBytes = std::size_t{1} << 20;

// Where a document came from. Values are found by path: "tags.team", "program[1]".
struct Source {
  std::string name;                  // "job.toml"; "" for JSON that came with a request
  std::map<std::string, int> lines;  // TOML only

  // "job.toml line 3: ", for the beginning of a message; "" where there is nothing to say.
  std::string before(const std::string& path) const;
};

// Throws InvalidInput: more than kMostDocumentBytes, broken, too deeply nested, a key twice in one
// object, a zero byte in a text, no object at the top.
nlohmann::ordered_json parse_json_document(std::string_view text);
// The same of TOML; keys stand in the order of the file, and `source.lines` is filled. Dates become
// text.
nlohmann::ordered_json parse_toml_document(std::string_view text, Source& source);

}  // namespace cohort::jobspec
