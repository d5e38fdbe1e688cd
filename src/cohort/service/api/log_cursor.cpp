#include "cohort/service/api/log_cursor.h"

#include <fmt/core.h>

#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr std::uint64_t kMostAttempts = 1'000'000'000;

}  // namespace

std::string to_text(const LogCursor& cursor) {
  std::string text = std::to_string(cursor.attempt);
  for (const auto& [task, offset] : cursor.offsets)
    if (offset > 0) text += fmt::format(";{}={}", task, offset);
  return text;
}

std::optional<LogCursor> log_cursor_of(std::string_view text) {
  const auto parts = split(text, ';');
  const auto attempt = parts.empty() ? std::nullopt : parse_unsigned(parts.front());
  if (!attempt || *attempt > kMostAttempts) return std::nullopt;
  LogCursor cursor{.attempt = static_cast<int>(*attempt), .offsets = {}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].rfind('=');
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    const auto offset = parse_unsigned(std::string_view(parts[i]).substr(equals + 1));
    if (!offset || *offset > INT64_MAX) return std::nullopt;
    cursor.offsets[parts[i].substr(0, equals)] = *offset;
  }
  return cursor;
}

}  // namespace cohort::service
