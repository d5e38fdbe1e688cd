#include "cohort/capi/world/place.h"

#include <algorithm>

namespace cohort::capi {

Place place_of(int rank, std::span<const std::string> hosts) {
  struct Host {
    std::string name;
    int ranks = 0;
  };
  std::vector<Host> seen;  // in the order of their first ranks
  const std::string& own = hosts[static_cast<std::size_t>(rank)];
  Place place;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto host =
        std::find_if(seen.begin(), seen.end(), [&](const Host& h) { return h.name == hosts[i]; });
    if (host == seen.end()) host = seen.insert(seen.end(), {hosts[i], 0});
    if (static_cast<int>(i) == rank) place.local_rank = host->ranks;
    ++host->ranks;
  }
  place.cross_size = 0;
  for (const Host& host : seen) {
    if (host.name == own) {
      place.local_size = host.ranks;
      place.cross_rank = place.cross_size;
    }
    if (host.ranks > place.local_rank) ++place.cross_size;
  }
  place.homogeneous = std::all_of(seen.begin(), seen.end(),
                                  [&](const Host& host) { return host.ranks == seen[0].ranks; });
  return place;
}

}  // namespace cohort::capi
