#include "cohort/cluster/dialects/json_error.h"

#include <algorithm>

namespace cohort::cluster {
namespace {

constexpr std::size_t kNeighbourhood = 24;

bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// text[begin, end) without cutting a UTF-8 character, control characters shown as spaces.
std::string excerpt(std::string_view text, std::size_t begin, std::size_t end) {
  while (begin < end && is_utf8_continuation(text[begin])) ++begin;
  while (end > begin && end < text.size() && is_utf8_continuation(text[end])) --end;
  std::string result(text.substr(begin, end - begin));
  std::replace_if(
      result.begin(), result.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return result;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
// value - invalid literal; last read: 'x'; expected ..." without what the caller says better.
std::string reason_of(std::string_view parser_says) {
  std::size_t colon = parser_says.find(": ");
  if (colon != std::string_view::npos) parser_says.remove_prefix(colon + 2);
  std::size_t last_read = parser_says.find("; last read:");
  if (last_read == std::string_view::npos) return std::string(parser_says);
  std::size_t expected = parser_says.rfind("'; expected ");
  std::string reason(parser_says.substr(0, last_read));
  if (expected != std::string_view::npos && expected > last_read)
    reason += parser_says.substr(expected + 1);
  return reason;
}

std::string advice_for(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return "The text ends too early: close every bracket and quote.";
  if (text[offset] == '\'') return "JSON wants double quotes (\") around names and texts.";
  std::size_t before = text.find_last_not_of(" \t\r\n", offset == 0 ? 0 : offset - 1);
  if ((text[offset] == '}' || text[offset] == ']') && before != std::string_view::npos &&
      text[before] == ',')
    return "Remove the comma before the closing bracket.";
  return "Correct the text there; `python3 -m json.tool` checks JSON.";
}

}  // namespace

InvalidInput broken_json(std::string_view source, std::string_view text, std::size_t offset,
                         std::string_view parser_says) {
  offset = std::min(offset, text.size());
  std::string_view before = text.substr(0, offset);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  std::size_t begin = offset > kNeighbourhood ? offset - kNeighbourhood : 0;
  std::size_t end = std::min(text.size(), offset + kNeighbourhood);
  return InvalidInput(
      fmt::format("{} is not JSON at line {}, column {} (offset {}): after `{}{}` comes `{}{}`: {}",
                  source, line, offset - line_start + 1, offset, begin > 0 ? "..." : "",
                  excerpt(text, begin, offset), excerpt(text, offset, end),
                  end < text.size() ? "..." : "", reason_of(parser_says)),
      {.advice = advice_for(text, offset)});
}

}  // namespace cohort::cluster
