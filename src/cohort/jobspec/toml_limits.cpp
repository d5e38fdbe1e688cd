#include "cohort/jobspec/toml_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cohort/base/error.h"

namespace cohort::jobspec {
namespace {

constexpr std::size_t kMostDots = 32;      // between two words that end a key
constexpr std::size_t kMostBrackets = 16;  // open at a time

// The end of the string that begins at `begin`, or of the text.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool is_long = text.substr(begin, 3) == three;
  for (std::size_t i = begin + (is_long ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (is_long ? text.substr(i, 3) == three : text[i] == quote) {
      return i + (is_long ? 3 : 1);
    } else if (!is_long && text[i] == '\n') {
      return i;  // the parser says that it does not end
    }
  }
  return text.size();
}

}  // namespace

void require_shallow_toml(std::string_view text, const std::string& name) {
  int line = 1;
  std::size_t dots = 0;
  std::string open;  // brackets that have not been closed yet
  const auto refuse = [&](const char* what, std::size_t most) {
    throw InvalidInput(fmt::format("{} line {}: {} more than {} deep", name, line, what, most),
                       {.advice = "A job file needs no more than a few levels."});
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, i);
      for (; i < end; ++i) line += text[i] == '\n' ? 1 : 0;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '\n') ++line;
    if (c == '.') {
      if (++dots > kMostDots) refuse("keys nest", kMostDots);
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
      dots = 0;
    }
    if (c == '[' || c == '{') {
      open += c;
      if (open.size() > kMostBrackets) refuse("lists and tables nest", kMostBrackets);
    } else if ((c == ']' || c == '}') && !open.empty()) {
      if (open.back() != (c == ']' ? '[' : '{'))
        throw InvalidInput(
            fmt::format("{} line {}: '{}' closes what '{}' opened", name, line, c, open.back()));
      open.pop_back();
    }
    ++i;
  }
}

}  // namespace cohort::jobspec
