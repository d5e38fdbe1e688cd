#include "cohort/engine/kubernetes/log_position.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"

namespace cohort::engine::kubernetes {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::optional<int> digits(std::string_view text, std::size_t from, std::size_t count) {
  if (text.size() < from + count) return std::nullopt;
  const auto number = parse_unsigned(text.substr(from, count));
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

// Behind the seconds: "Z", "+02:00". In seconds east of Greenwich.
std::optional<std::int64_t> offset_of(std::string_view zone) {
  if (zone == "Z") return 0;
  const auto hours = digits(zone, 1, 2), minutes = digits(zone, 4, 2);
  if (zone.size() != 6 || zone[3] != ':' || !hours || !minutes) return std::nullopt;
  const std::int64_t offset = *hours * 3600 + *minutes * 60;
  return zone[0] == '-' ? -offset : offset;
}

}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  using namespace std::chrono;
  const auto y = digits(text, 0, 4), mo = digits(text, 5, 2), d = digits(text, 8, 2),
             h = digits(text, 11, 2), mi = digits(text, 14, 2), s = digits(text, 17, 2);
  if (!y || !mo || !d || !h || !mi || !s || text[4] != '-' || text[7] != '-' || text[10] != 'T')
    return std::nullopt;
  std::size_t end = 19;
  std::int64_t nanoseconds = 0;
  if (end < text.size() && text[end] == '.') {
    std::int64_t unit = kSecond;
    for (++end; end < text.size() && text[end] >= '0' && text[end] <= '9'; ++end)
      nanoseconds += (text[end] - '0') * (unit /= 10);
  }
  const auto offset = offset_of(text.substr(std::min(end, text.size())));
  const year_month_day date{year(*y), month(static_cast<unsigned>(*mo)),
                            day(static_cast<unsigned>(*d))};
  if (!offset || !date.ok()) return std::nullopt;
  const std::int64_t days = sys_days(date).time_since_epoch().count();
  return (days * 86400 + *h * 3600 + *mi * 60 + *s - *offset) * kSecond + nanoseconds;
}

std::string LogPosition::since() const {
  if (last_ < 0) return "";
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(static_cast<time_t>(last_ / kSecond)));
}

void LogPosition::begin_stream() {
  skipped_ = 0;
  fresh_ = last_ < 0;
}

std::optional<std::string_view> LogPosition::take(std::string_view line) {
  const std::size_t space = line.find(' ');
  const auto time = parse_timestamp(line.substr(0, space));
  // The rest of a line that the container's runtime has cut belongs to what was before it.
  if (!time) return fresh_ ? std::optional(line) : std::nullopt;
  const std::string_view text =
      space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  if (!fresh_) {
    if (*time < last_) return std::nullopt;
    if (*time == last_ && skipped_ < same_) {
      ++skipped_;
      return std::nullopt;
    }
    fresh_ = true;
  }
  same_ = *time == last_ ? same_ + 1 : 1;
  last_ = *time;
  return text;
}

std::string LogPosition::to_json() const {
  return nlohmann::json{{"last", last_}, {"same", same_}}.dump();
}

LogPosition LogPosition::from_json(std::string_view text) {
  LogPosition position;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("last") || !json.contains("same")) return position;
  position.last_ = json.at("last").get<std::int64_t>();
  position.same_ = json.at("same").get<int>();
  return position;
}

}  // namespace cohort::engine::kubernetes
