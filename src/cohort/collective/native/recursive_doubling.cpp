#include "cohort/collective/native/recursive_doubling.h"

#include <algorithm>
#include <array>
#include <bit>

namespace cohort::collective {

namespace {

// The participants of the exchange (see the header).
class Participants {
 public:
  explicit Participants(const Placement& placement)
      : placement_(placement),
        count_(static_cast<int>(std::bit_floor(static_cast<unsigned>(placement.hosts())))),
        pairs_(placement.hosts() - count_) {}

  int count() const { return count_; }
  int of(int host) const { return host < 2 * pairs_ ? host / 2 : host - pairs_; }
  int first_host(int index) const { return index < pairs_ ? 2 * index : index + pairs_; }
  bool is_pair(int index) const { return index < pairs_; }

  // The ranks that participant `index` knows before the round of `width`.
  std::vector<int> known(int index, int width) const {
    const int from = index / width * width;
    std::vector<int> ranks;
    for (int rank = 0; rank < static_cast<int>(placement_.host_of.size()); ++rank) {
      const int at = of(placement_.host_of[rank]);
      if (at >= from && at < from + width) ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  const Placement& placement_;
  int count_;
  int pairs_;
};

}  // namespace

std::string recursive_doubling(const Hosts& hosts, LeaderExchange& leaders, Partials& own,
                               const Reduction& reduction, std::size_t count, std::byte* result,
                               Deadline deadline) {
  const Participants participants(hosts.placement);
  const int self = participants.of(hosts.host());
  const int first = participants.first_host(self);
  const std::span<std::byte> whole{result, count * size_of(reduction.dtype)};
  const auto nodes = [&](const std::vector<int>& ranks) {
    return maximal_subtrees(reduction.leaves, ranks);
  };

  if (hosts.host() != first) {
    leaders.swap(first, own.data, whole);
    leaders.wait(deadline);
    return leaders.mismatch();
  }
  if (participants.is_pair(self)) {
    Partials second(nodes(hosts.placement.ranks_on(first + 1)), reduction, count);
    leaders.receive(first + 1, second.data);
    leaders.wait(deadline);
    const std::array<const Partials*, 2> both{&own, &second};
    if (leaders.mismatch().empty())
      own = combine(both, nodes(participants.known(self, 1)), reduction, count);
  }
  // A leader that knows of a mismatch goes on to tell the others.
  for (int width = 1; width < participants.count(); width *= 2) {
    const int partner = self ^ width;
    Partials theirs(nodes(participants.known(partner, width)), reduction, count);
    leaders.swap(participants.first_host(partner), own.data, theirs.data);
    leaders.wait(deadline);
    if (!leaders.mismatch().empty()) continue;
    const std::array<const Partials*, 2> both{&own, &theirs};
    if (2 * width == participants.count())
      finish(both, reduction, count, result);
    else
      own = combine(both, nodes(participants.known(self, 2 * width)), reduction, count);
  }
  if (participants.is_pair(self)) {
    leaders.send(first + 1, whole);
    leaders.wait(deadline);
  }
  return leaders.mismatch();
}

}  // namespace cohort::collective
