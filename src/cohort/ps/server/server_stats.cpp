#include "cohort/ps/server/server_stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

namespace cohort::ps {

void StalenessHistogram::add(std::uint64_t staleness) {
  largest_ = std::max(largest_, staleness);
  if (staleness < kExact)
    ++exact_[staleness];
  else
    ++powers_[static_cast<std::size_t>(std::bit_width(staleness - 1) - 5)];
}

std::string ServerStats::to_json(int server, int connected, std::uint64_t state_bytes) const {
  nlohmann::ordered_json histogram = nlohmann::ordered_json::object();
  for (int i = 0; i < StalenessHistogram::kExact; ++i)
    if (staleness.exact(i) > 0) histogram[std::to_string(i)] = staleness.exact(i);
  for (int bin = 0; bin < StalenessHistogram::kPowers; ++bin)
    if (staleness.power(bin) > 0)
      histogram[fmt::format("{}-{}", (std::uint64_t{16} << bin) + 1, std::uint64_t{32} << bin)] =
          staleness.power(bin);
  const nlohmann::ordered_json json = {
      {"server", server},           {"workers", connected},
      {"pushes", pushes},           {"applied", applied},
      {"duplicates", duplicates},   {"dropped_late", dropped_late},
      {"not_finite", not_finite},   {"updates", updates},
      {"bytes_in", bytes_in},       {"bytes_out", bytes_out},
      {"state_bytes", state_bytes}, {"update_seconds", update_seconds},
      {"staleness", histogram},     {"largest_staleness", staleness.largest()}};
  return json.dump();
}

}  // namespace cohort::ps
