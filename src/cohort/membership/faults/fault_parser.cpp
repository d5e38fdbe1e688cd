#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/membership/faults/fault_points.h"

namespace cohort::membership {
namespace {

constexpr std::array<std::string_view, 4> kActions = {"kill", "pause", "cut", "slow"};
constexpr std::array<std::string_view, 11> kPhases = {"load",   "forward", "backward", "bucket",
                                                      "reduce", "apply",   "applied",  "checkpoint",
                                                      "join",   "view",    "report"};
constexpr std::chrono::hours kLongest{24};

[[noreturn]] void refuse(std::string_view part, std::string_view fault,
                         const std::string& allowed) {
  throw InvalidInput(fmt::format("'{}' in the fault '{}' says nothing known", part, fault),
                     {.advice = allowed + " For example kill@rank1:step17:reduce."});
}

template <typename Names>
std::string list_names(const Names& names) {
  return join({names.begin(), names.end()}, ", ");
}

// "rank3" -> 3, "rank*" -> nothing.
std::optional<std::uint64_t> parse_place(std::string_view word, std::string_view part,
                                         std::string_view fault, std::uint64_t most) {
  if (part.starts_with(word)) {
    std::string_view number = part.substr(word.size());
    if (number == "*") return std::nullopt;
    if (auto value = parse_unsigned(number); value && *value <= most) return value;
  }
  refuse(part, fault, fmt::format("Write {0}0, {0}1, ... or {0}*.", word));
}

std::string parse_phase(std::string_view part, std::string_view fault) {
  for (std::string_view phase : kPhases)
    if (part == phase) return std::string(part);
  constexpr std::string_view kBucket = "bucket";
  if (part.starts_with(kBucket)) {
    auto number = parse_unsigned(part.substr(kBucket.size()));
    if (number && *number <= std::numeric_limits<int>::max())
      return fmt::format("{}{}", kBucket, *number);
  }
  refuse(part, fault, fmt::format("The phases are {}, and bucketN.", list_names(kPhases)));
}

std::chrono::milliseconds parse_time(std::string_view part, std::string_view fault) {
  double value = 0;
  auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(part.data() + part.size() - end));
  if (error == std::errc() && (unit == "ms" || unit == "s")) {
    double milliseconds = std::round(unit == "s" ? value * 1000 : value);
    if (milliseconds >= 1 && milliseconds <= std::chrono::milliseconds(kLongest).count())
      return std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
  }
  refuse(part, fault, "Write a time from 1ms to 24 hours as 800ms or 3s, or `again`.");
}

Fault parse_fault(std::string_view text) {
  auto at = text.find('@');
  std::string_view action = text.substr(0, at);
  auto named = std::find(kActions.begin(), kActions.end(), action);
  if (at == std::string_view::npos || named == kActions.end())
    refuse(
        action, text,
        fmt::format("Write ACTION@rankN:stepN:PHASE; ACTION is one of {}.", list_names(kActions)));
  auto parts = split(text.substr(at + 1), ':');
  if (parts.size() < 3)
    refuse(text.substr(at + 1), text, "Write rank, step and phase, with a colon between them.");

  Fault fault;
  fault.action = static_cast<Fault::Action>(named - kActions.begin());
  if (auto rank = parse_place("rank", parts[0], text, std::numeric_limits<int>::max()))
    fault.rank = static_cast<int>(*rank);
  if (auto step = parse_place("step", parts[1], text, std::numeric_limits<std::int64_t>::max()))
    fault.step = static_cast<std::int64_t>(*step);
  fault.phase = parse_phase(parts[2], text);
  for (std::size_t i = 3; i < parts.size(); ++i) {
    if (parts[i] == "again" && !fault.again)
      fault.again = true;
    else if (fault.time.count() == 0)
      fault.time = parse_time(parts[i], text);
    else
      refuse(parts[i], text, "After the phase, `again` and a time may stand once each.");
  }
  bool is_kill = fault.action == Fault::Action::kill;
  if (is_kill && fault.time.count() > 0) refuse(parts.back(), text, "kill takes no time.");
  if (!is_kill && fault.time.count() == 0)
    refuse(parts.back(), text, fmt::format("{} needs a time behind the phase, 800ms.", action));
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  for (const std::string& part : split(text, ',')) faults.push_back(parse_fault(trim(part)));
  return faults;
}

}  // namespace cohort::membership
