#include "cohort/service/metrics/log_metrics.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <charconv>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr int kMostGroups = 16;
constexpr std::int64_t kRegexMemory = std::int64_t{8} << 20;

re2::RE2::Options regex_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kRegexMemory);
  return options;
}

std::string_view view_of(const re2::StringPiece& piece) {
  return piece.data() ? std::string_view(piece.data(), piece.size()) : std::string_view();
}

}  // namespace

struct LogMetrics::Expression {
  std::unique_ptr<re2::RE2> regex;  // null: finds nothing
  int value_group = 1;
  int step_group = 0;  // 0: none
};

LogMetrics::LogMetrics(std::vector<jobspec::MetricDefinition> definitions)
    : definitions_(std::move(definitions)) {
  for (const auto& definition : definitions_) {
    auto& expression = expressions_.emplace_back();
    auto regex = std::make_unique<re2::RE2>(definition.regex, regex_options());
    const auto& names = regex->NamedCapturingGroups();
    if (const auto step = names.find("step"); step != names.end())
      expression.step_group = step->second;
    if (expression.step_group == 1) expression.value_group = 2;
    if (regex->ok() && regex->NumberOfCapturingGroups() >= expression.value_group &&
        regex->NumberOfCapturingGroups() < kMostGroups)
      expression.regex = std::move(regex);
    else
      problems_.push_back(fmt::format(
          "metric '{}': {}", definition.name,
          regex->ok() ? fmt::format("'{}' needs a group for the value, and has 1 to {} of them",
                                    definition.regex, kMostGroups - 1)
                      : regex->error()));
  }
}

LogMetrics::~LogMetrics() = default;

std::vector<LogValue> LogMetrics::find(std::string_view line) const {
  std::vector<LogValue> values;
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    const Expression& expression = expressions_[i];
    re2::StringPiece groups[kMostGroups];
    const re2::StringPiece text(line.data(), line.size());
    if (!expression.regex ||
        !expression.regex->Match(text, 0, text.size(), re2::RE2::UNANCHORED, groups, kMostGroups))
      continue;
    const auto value = parse_number(view_of(groups[expression.value_group]));
    if (!value) continue;
    auto& found = values.emplace_back(LogValue{.definition = i, .value = *value});
    const auto step = expression.step_group == 0
                          ? std::nullopt
                          : parse_unsigned(view_of(groups[expression.step_group]));
    if (step && *step <= INT64_MAX) found.step = static_cast<std::int64_t>(*step);
  }
  return values;
}

void require_expressions(const std::vector<jobspec::MetricDefinition>& definitions) {
  const LogMetrics metrics(definitions);
  if (metrics.problems().empty()) return;
  throw InvalidInput(
      fmt::format("metric_definitions: {}", escape_controls(join(metrics.problems(), "; "))),
      {.advice = "Write RE2 expressions with a group for the value, as in loss=([0-9.]+)."});
}

std::optional<double> parse_number(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || text.empty() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace cohort::service
