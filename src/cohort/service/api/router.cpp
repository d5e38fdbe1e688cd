#include "cohort/service/api/router.h"

#include <optional>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

using Parts = std::map<std::string, std::string, std::less<>>;

bool is_parameter(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

// The decoded segments of a path; nothing when one cannot be decoded.
std::optional<std::vector<std::string>> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  for (const std::string& raw : split(path, '/')) {
    auto decoded = percent_decoded(raw);
    if (!decoded) return std::nullopt;
    segments.push_back(*std::move(decoded));
  }
  return segments;
}

std::optional<Parts> match(const std::vector<std::string>& pattern,
                           const std::vector<std::string>& segments) {
  const bool takes_rest = pattern.back() == "{path}";
  if (takes_rest ? segments.size() < pattern.size() : segments.size() != pattern.size())
    return std::nullopt;
  Parts parts;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_parameter(pattern[i])) {
      if (pattern[i] != segments[i]) return std::nullopt;
      continue;
    }
    if (segments[i].empty()) return std::nullopt;
    parts[pattern[i].substr(1, pattern[i].size() - 2)] = segments[i];
  }
  if (takes_rest)
    parts["path"] = join(
        {segments.begin() + static_cast<std::ptrdiff_t>(pattern.size()) - 1, segments.end()}, "/");
  return parts;
}

}  // namespace

std::string_view query_of(std::string_view target) {
  const auto mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

bool is_open_route(const std::vector<Route>& table, std::string_view method,
                   std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const Route& route : table)
    if (route.is_open && route.method == method && route.path == path) return true;
  return false;
}

RouteMatch match_route(const std::vector<Route>& table, std::string_view method,
                       std::string_view target) {
  const auto segments = segments_of(target.substr(0, target.find('?')));
  if (!segments)
    throw ApiError(400, "the path is not encoded well", {.advice = "Write each % as %25."});
  std::vector<std::string> others;
  for (const Route& route : table) {
    auto parts = match(split(route.path, '/'), *segments);
    if (!parts) continue;
    if (route.method == method) return {&route, *std::move(parts)};
    others.emplace_back(route.method);
  }
  if (others.empty())
    throw ApiError(404, "the service has nothing under this path", {.advice = "See docs/api.md."});
  throw ApiError(
      405, fmt::format("this path takes {}, not {}", join(others, ", "), escape_controls(method)));
}

}  // namespace cohort::service
