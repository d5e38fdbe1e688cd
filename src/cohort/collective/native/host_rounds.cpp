#include "cohort/collective/native/host_rounds.h"

#include <algorithm>

#include "cohort/collective/reduction/slices.h"

namespace cohort::collective {

namespace {

// At least one cache line, and whole ones.
std::size_t whole_lines(std::size_t bytes) { return std::max<std::size_t>(bytes / 64, 1) * 64; }

}  // namespace

HostRounds::HostRounds(const Call& call, const Placement& placement)
    : call_(call), placement_(placement), hosts_(placement.hosts()), element_(size_of(call.dtype)) {
  const auto hosts = static_cast<std::size_t>(hosts_);
  const std::size_t block = std::min(kBlockBytes, kRoundBytes / hosts);
  if (scatters()) {
    std::size_t most_ranks = 1;
    for (int host = 0; host < hosts_; ++host)
      most_ranks = std::max(most_ranks, placement.ranks_on(host).size());
    step_ = whole_lines(block / most_ranks) / element_;
  } else {
    step_ = whole_lines(block) * hosts / element_;
  }
  count_ = (call.count + step_ - 1) / step_;
}

std::size_t HostRounds::most_elements() const {
  return std::min(step_, call_.count) * (scatters() ? placement_.peers.size() : 1);
}

HostRound HostRounds::round(std::size_t index) const {
  HostRound result;
  result.from = index * step_;
  const std::size_t count = std::min(step_, call_.count - result.from);
  if (scatters()) {
    for (std::size_t rank = 0; rank < placement_.peers.size(); ++rank)
      result.blocks.push_back(
          {placement_.host_of[rank], rank * call_.count + result.from, count, rank * count});
    result.elements = count * placement_.peers.size();
    return result;
  }
  for (int host = 0; host < hosts_; ++host) {
    const Range slice = slice_of(count, element_, host, hosts_);
    result.blocks.push_back({host, result.from + slice.from, slice.count, slice.from});
  }
  result.elements = count;
  return result;
}

}  // namespace cohort::collective
