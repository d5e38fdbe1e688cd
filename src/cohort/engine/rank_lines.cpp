#include "cohort/engine/rank_lines.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "cohort/base/text.h"

namespace cohort::engine {
namespace {

using nlohmann::ordered_json;

constexpr char kNothing = '\x1d';   // breaks what looks like a tag; left out again
constexpr char kLineEnd = '\x1e';   // a newline of the program; one without it is mpirun's
constexpr char kReported = '\x1f';  // a report follows, up to the end of the line

struct Tag {
  std::size_t bytes = 0;  // 0: there is none
  int rank = 0;
  bool cut = false;  // the text ends before it can be told
};

// At the begin of `text`: "[1,0]<stdout>:", also of standard error.
Tag tag_of(std::string_view text) {
  std::size_t at = 1;  // '['
  const auto number = [&](char after) -> std::optional<int> {
    const std::size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    if (at == text.size() || text[at] != after || at == begin) return std::nullopt;
    return static_cast<int>(parse_unsigned(text.substr(begin, at++ - begin)).value_or(0));
  };
  const bool has_job = number(',').has_value();
  const auto rank = has_job ? number(']') : std::nullopt;
  if (!rank) return {.cut = at == text.size()};
  for (const std::string_view stream : {"<stdout>:", "<stderr>:"}) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(stream)) return {.bytes = at + stream.size(), .rank = *rank};
    if (stream.starts_with(rest)) return {.cut = true};
  }
  return {};
}

RankReport parse_report(std::string_view text) {
  const auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  return {.ended = json.value("ended", false),
          .time = json.value("time", std::string()),
          .host = json.value("host", std::string()),
          .code = json.value("code", 0),
          .signal = json.value("signal", 0),
          .told = json.value("told", false)};
}

}  // namespace

std::string encode_text(std::string_view text) {
  std::string encoded;
  encoded.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '\n') encoded += kLineEnd;
    if (c == '<' && encoded.ends_with(']')) encoded += kNothing;
    encoded += c == kNothing || c == kLineEnd || c == kReported ? '?' : c;
  }
  return encoded;
}

std::string encode_report(const RankReport& report) {
  const ordered_json json{{"ended", report.ended},   {"time", report.time},
                          {"host", report.host},     {"code", report.code},
                          {"signal", report.signal}, {"told", report.told}};
  return kReported + encode_text(json.dump() + "\n");
}

void RankLines::take(std::string_view piece) {
  waiting_ += piece;
  const std::string text = std::move(waiting_);
  waiting_.clear();
  std::size_t begin = 0;
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    const Tag tag = tag_of(std::string_view(text).substr(at));
    if (tag.bytes == 0 && !tag.cut) continue;
    give(std::string_view(text).substr(begin, at - begin));
    begin = at;
    if (tag.cut) {
      waiting_ = text.substr(at);
      return;
    }
    rank_ = tag.rank;
    begin += tag.bytes;
    at = begin - 1;
  }
  give(std::string_view(text).substr(begin));
}

void RankLines::finish() {
  give(waiting_);
  waiting_.clear();
}

// Up to the next tag: of one rank to the end of its line, then mpirun's own.
void RankLines::give(std::string_view piece) {
  if (rank_ >= 0) {
    const std::size_t end = piece.find('\n');
    give_rank(piece.substr(0, end));
    if (end == std::string_view::npos) return;
    rank_ = -1;
    piece.remove_prefix(end + 1);
  }
  if (!piece.empty()) sink_.own(piece);
}

void RankLines::give_rank(std::string_view piece) {
  auto report = reports_.find(rank_);
  std::string text;
  const auto give_text = [&] {
    if (!text.empty()) sink_.text(rank_, text);
    text.clear();
  };
  for (const char c : piece) {
    if (c == kNothing) continue;
    if (c == kReported) {
      give_text();
      report = reports_.emplace(rank_, "").first;
    } else if (report == reports_.end()) {
      text += c == kLineEnd ? '\n' : c;
    } else if (c == kLineEnd) {
      sink_.report(rank_, parse_report(report->second));
      reports_.erase(report);
      report = reports_.end();
    } else {
      report->second += c;
    }
  }
  give_text();
}

}  // namespace cohort::engine
