#include "cohort/service/http/url.h"

#include <algorithm>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

constexpr std::size_t kMostParameters = 256;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decoded_query_part(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  auto decoded = percent_decoded(text);
  if (!decoded)
    throw ApiError(400, fmt::format("'{}' in the query is not encoded well", escape_controls(text)),
                   {.advice = "Write each % as %25."});
  return *std::move(decoded);
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      byte = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (byte == '\0') return std::nullopt;
    decoded += byte;
  }
  return decoded;
}

Query::Query(std::string_view text) {
  for (const std::string& part : split(text, '&')) {
    if (part.empty()) continue;
    if (values_.size() == kMostParameters)
      throw ApiError(400, fmt::format("the query has more than {} parameters", kMostParameters));
    const auto equals = part.find('=');
    std::string name = decoded_query_part(part.substr(0, equals));
    values_.emplace_back(std::move(name), equals == std::string::npos
                                              ? std::string()
                                              : decoded_query_part(part.substr(equals + 1)));
  }
}

void Query::require_only(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : values_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string meant = nearest(name, {names.begin(), names.end()});
    throw ApiError(
        400, fmt::format("unknown parameter '{}'", escape_controls(name)),
        {.advice = meant.empty() ? "See docs/api.md." : fmt::format("Did you mean {}?", meant)});
  }
}

std::string Query::get(std::string_view name) const {
  auto values = all(name);
  if (values.size() > 1)
    throw ApiError(400, fmt::format("'{}' is twice in the query", escape_controls(name)));
  return values.empty() ? std::string() : std::move(values.front());
}

std::vector<std::string> Query::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [other, value] : values_)
    if (other == name) values.push_back(value);
  return values;
}

bool Query::flag(std::string_view name) const { return number(name, 0, 0, 1) == 1; }

std::int64_t Query::number(std::string_view name, std::int64_t otherwise, std::int64_t least,
                           std::int64_t most) const {
  const std::string text = get(name);
  if (text.empty()) return otherwise;
  const auto value = parse_unsigned(text);
  if (!value || *value > static_cast<std::uint64_t>(most) ||
      static_cast<std::int64_t>(*value) < least)
    throw ApiError(400, fmt::format("{} is '{}', and must be a whole number from {} to {}", name,
                                    escape_controls(text), least, most));
  return static_cast<std::int64_t>(*value);
}

}  // namespace cohort::service
