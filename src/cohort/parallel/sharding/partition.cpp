#include "cohort/parallel/sharding/partition.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::parallel {

bool Partition::is_cut(const ParameterSize& parameter, int ranks) {
  return ranks > 1 && parameter.elements * parameter.element_bytes >= kLeastCut &&
         parameter.elements >= kUnit * static_cast<std::size_t>(ranks);
}

Partition::Partition(std::span<const ParameterSize> parameters, int ranks) : ranks_(ranks) {
  COHORT_CHECK(ranks > 0, "a partition among {} ranks", ranks);
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> bytes(count);
  for (const ParameterSize& parameter : parameters) {
    Cut cut{.elements = parameter.elements};
    if (is_cut(parameter, ranks)) {
      cut.each = parameter.elements / (kUnit * count) * kUnit;
    } else {
      const auto least = std::min_element(bytes.begin(), bytes.end());
      *least += parameter.elements * parameter.element_bytes;
      cut.owner = static_cast<int>(least - bytes.begin());
    }
    slices_.push_back(cut);
  }
}

Slice Partition::slice(std::size_t parameter, int rank) const {
  const Cut& cut = slices_[parameter];
  if (cut.owner >= 0) return {0, rank == cut.owner ? cut.elements : 0};
  const std::size_t from = cut.each * static_cast<std::size_t>(rank);
  return {from, rank + 1 < ranks_ ? cut.each : cut.elements - from};
}

std::vector<std::size_t> Partition::counts(std::size_t parameter) const {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks_; ++rank) counts.push_back(slice(parameter, rank).count);
  return counts;
}

}  // namespace cohort::parallel
