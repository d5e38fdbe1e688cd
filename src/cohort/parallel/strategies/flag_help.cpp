#include "cohort/parallel/strategies/flag_help.h"

#include <algorithm>
#include <cstdint>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

void refuse_flag(const std::string& flag, const std::string& value, const std::string& allowed) {
  throw InvalidInput(fmt::format("{} is '{}'", flag, value),
                     {.advice = fmt::format("Give {}.", allowed)});
}

std::string choose_flag(const std::string& flag, const std::string& value,
                        const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    refuse_flag(flag, value, "one of " + join(allowed, ", "));
  return value;
}

int count_flag(const std::string& flag, const std::string& value, int least, int most) {
  const auto number = parse_unsigned(value);
  if (!number || *number < static_cast<std::uint64_t>(least) ||
      *number > static_cast<std::uint64_t>(most))
    refuse_flag(flag, value, fmt::format("a number from {} to {}", least, most));
  return static_cast<int>(*number);
}

}  // namespace cohort::parallel
