#include "cohort/collective/native/placement.h"

#include <algorithm>

namespace cohort::collective {

int Placement::hosts() const {
  return host_of.empty() ? 0 : *std::max_element(host_of.begin(), host_of.end()) + 1;
}

std::vector<int> Placement::ranks_on(int host) const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank)
    if (host_of[rank] == host) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace cohort::collective
