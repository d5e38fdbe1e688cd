#include "cohort/service/logs/log_search.h"

#include <re2/re2.h>

#include <algorithm>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

constexpr std::size_t kSearchPiece = std::size_t{1} << 20;
constexpr std::size_t kMostPattern = 1000;
constexpr std::size_t kMostText = 500;
constexpr std::string_view kLines = "(?m)";  // ^ and $ are those of lines
constexpr std::string_view kReplacement = "\uFFFD";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Of the character of UTF-8 that the text begins with; 0: it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  // Written longer than need be, surrogates, past the last one.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

std::size_t characters(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char byte) { return !is_continuation(byte); }));
}

struct Span {
  std::size_t begin, end;
};

// The part of the line that is shown: all of it, or kMostText bytes with the match in the middle,
// between characters.
Span shown_part(std::string_view text, Span line, Span match) {
  if (line.end - line.begin <= kMostText) return line;
  const std::size_t around = kMostText - std::min(kMostText, match.end - match.begin);
  Span part{std::max(line.begin, match.begin - std::min(match.begin, around / 2)), 0};
  part.end = std::min(line.end, part.begin + kMostText);
  part.begin = std::min(part.begin, part.end - std::min(part.end - line.begin, kMostText));
  while (part.begin < match.begin && is_continuation(text[part.begin])) ++part.begin;
  for (int i = 0; i < 3 && part.end < line.end && part.end > match.begin + 1 &&
                  is_continuation(text[part.end]);
       ++i)
    --part.end;
  return part;
}

LogMatch match_of(std::string_view text, Span line, Span match) {
  const Span part = shown_part(text, line, match);
  match.end = std::min(match.end, part.end);
  const std::string before = valid_utf8(text.substr(part.begin, match.begin - part.begin));
  const std::string itself = valid_utf8(text.substr(match.begin, match.end - match.begin));
  LogMatch found;
  found.text = before + itself + valid_utf8(text.substr(match.end, part.end - match.end));
  found.start = characters(before);
  found.length = characters(itself);
  return found;
}

// Without what stands before the person's own words.
std::string expression_error(const RE2& expression) {
  std::string error = expression.error();
  if (const auto at = error.find(kLines); at != std::string::npos) error.erase(at, kLines.size());
  return error;
}

// Goes through pieces of a log, and knows which line it is in.
class LineSearch {
 public:
  LineSearch(const RE2& expression, std::size_t most, std::uint64_t from, std::uint64_t line,
             LogMatches& found)
      : expression_(expression),
        most_(most),
        at_(from),
        line_(line),
        line_offset_(from),
        found_(found) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t line() const { return line_; }

  // False: as many matches as were asked for are there.
  bool search(std::string_view text) {
    std::size_t pos = 0;
    while (pos < text.size()) {
      re2::StringPiece match;
      const bool has_match = expression_.Match(re2::StringPiece(text.data(), text.size()), pos,
                                               text.size(), RE2::UNANCHORED, &match, 1);
      const std::size_t begin =
          has_match ? static_cast<std::size_t>(match.data() - text.data()) : text.size();
      pass_lines(text.substr(pos, begin - pos), at_ + pos);
      if (begin == text.size()) break;
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      if (last_matched_ != line_ + 1) add(text, begin, begin + match.size(), end);
      pos = std::min(end + 1, text.size());
      pass_lines(text.substr(end, pos - end), at_ + end);
      if (found_.matches.size() == most_) {
        at_ += pos;
        return false;
      }
    }
    at_ += text.size();
    return true;
  }

 private:
  void pass_lines(std::string_view text, std::uint64_t offset) {
    const auto last = text.rfind('\n');
    if (last == std::string_view::npos) return;
    line_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    line_offset_ = offset + last + 1;
  }

  void add(std::string_view text, std::size_t begin, std::size_t end, std::size_t line_end) {
    // Of a line that began in an earlier piece, this piece is shown.
    const std::size_t line_begin =
        line_offset_ > at_ ? static_cast<std::size_t>(line_offset_ - at_) : 0;
    LogMatch match = match_of(text, {line_begin, line_end}, {begin, end});
    match.line = line_;
    match.offset = line_offset_;
    found_.matches.push_back(std::move(match));
    last_matched_ = line_ + 1;
  }

  const RE2& expression_;
  const std::size_t most_;
  std::uint64_t at_;
  std::uint64_t line_;
  std::uint64_t line_offset_;
  std::uint64_t last_matched_ = 0;  // 1 + the line; 0: none
  LogMatches& found_;
};

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    text += length == 0 ? kReplacement : bytes.substr(0, length);
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

LogSearch::LogSearch(const std::string& text, Options options) {
  if (text.empty()) throw ApiError(400, "q is missing: what to look for");
  if (text.size() > kMostPattern)
    throw ApiError(400, fmt::format("q has {} bytes, and may have {}", text.size(), kMostPattern));
  RE2::Options how;
  how.set_log_errors(false);
  how.set_literal(!options.is_regex);
  how.set_case_sensitive(options.matches_case);
  how.set_never_nl(true);
  expression_ = std::make_unique<RE2>(options.is_regex ? std::string(kLines) + text : text, how);
  if (!expression_->ok())
    throw ApiError(400,
                   fmt::format("q is no regular expression: {}", expression_error(*expression_)),
                   {.advice = "It is one of RE2, or plain text without regex=1."});
}

LogSearch::~LogSearch() = default;
LogSearch::LogSearch(LogSearch&&) noexcept = default;

LogMatches LogSearch::run(const ReadLog& read, std::uint64_t from, std::uint64_t line,
                          const Bounds& bounds) const {
  const auto deadline = std::chrono::steady_clock::now() + bounds.time;
  LogMatches found;
  LineSearch lines(*expression_, bounds.matches, from, line, found);
  bool goes_on = true;
  while (goes_on) {
    const std::string piece = read(lines.at(), kSearchPiece);
    if (piece.empty()) break;
    const auto last = piece.rfind('\n');
    const bool is_last = piece.size() < kSearchPiece && last + 1 != piece.size() &&
                         read(lines.at() + piece.size(), 1).empty();
    // Whole lines; else what there is of a long line, or of the last one.
    const std::size_t whole = last == std::string::npos || is_last ? piece.size() : last + 1;
    goes_on = lines.search(std::string_view(piece).substr(0, whole)) &&
              lines.at() - from < bounds.bytes && std::chrono::steady_clock::now() < deadline;
  }
  found.size = lines.at();
  if (!goes_on && !read(lines.at(), 1).empty()) {
    found.next = lines.at();
    found.next_line = lines.line();
  }
  return found;
}

}  // namespace cohort::service
