#include "cohort/service/http/time_text.h"

#include <fmt/core.h>
#include <time.h>

#include <charconv>
#include <cmath>
#include <cstdio>

namespace cohort::service {
namespace {

constexpr Millis kSecond = 1000;
constexpr double kMostBack = 1e10;  // seconds: some 300 years

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "Z", "+02:00": minutes that local time is ahead.
std::optional<int> offset_of(const std::string& text) {
  if (text == "Z" || text == "z") return 0;
  int hours = 0, minutes = 0, used = 0;
  char sign = 0;
  if (std::sscanf(text.c_str(), "%c%2d:%2d%n", &sign, &hours, &minutes, &used) != 3 ||
      used != static_cast<int>(text.size()) || (sign != '+' && sign != '-') || hours > 23 ||
      minutes > 59)
    return std::nullopt;
  return (sign == '-' ? -1 : 1) * (hours * 60 + minutes);
}

std::optional<Millis> parse_rfc3339(const std::string& text) {
  tm fields{};
  int used = 0;
  char divider = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%2d%n", &fields.tm_year, &fields.tm_mon,
                  &fields.tm_mday, &divider, &fields.tm_hour, &fields.tm_min, &fields.tm_sec,
                  &used) != 7 ||
      (divider != 'T' && divider != 't' && divider != ' '))
    return std::nullopt;
  std::string rest = text.substr(static_cast<std::size_t>(used));
  double fraction = 0;
  if (!rest.empty() && rest.front() == '.') {
    const auto end = rest.find_first_not_of("0123456789", 1);
    if (end == std::string::npos || end == 1) return std::nullopt;
    fraction = number_of("0" + rest.substr(0, end)).value_or(0);
    rest.erase(0, end);
  }
  const auto offset = offset_of(rest);
  if (!offset || fields.tm_mon < 1 || fields.tm_mon > 12 || fields.tm_mday < 1 ||
      fields.tm_mday > 31 || fields.tm_hour > 23 || fields.tm_min > 59 || fields.tm_sec > 60)
    return std::nullopt;
  fields.tm_year -= 1900;
  fields.tm_mon -= 1;
  const Millis seconds = static_cast<Millis>(::timegm(&fields)) - Millis{*offset} * 60;
  return seconds * kSecond + static_cast<Millis>(fraction * 1000);
}

}  // namespace

std::string time_text(Millis time) {
  const Millis millis = ((time % kSecond) + kSecond) % kSecond;
  const time_t seconds = static_cast<time_t>((time - millis) / kSecond);
  tm fields{};
  ::gmtime_r(&seconds, &fields);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", fields.tm_year + 1900,
                     fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min,
                     fields.tm_sec, millis);
}

std::optional<Millis> parse_since(std::string_view text, Millis now) {
  if (const auto back = number_of(text)) {
    if (!(*back >= 0) || *back > kMostBack) return std::nullopt;
    return now - static_cast<Millis>(*back * 1000);
  }
  return parse_rfc3339(std::string(text));
}

}  // namespace cohort::service
