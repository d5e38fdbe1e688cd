#include "cohort/collective/native/recursive_doubling.h"

#include <algorithm>
#include <array>
#include <bit>

namespace cohort::collective {

namespace {

class Seats {
 public:
  explicit Seats(const Placement& placement)
      : placement_(placement),
        count_(static_cast<int>(std::bit_floor(static_cast<unsigned>(placement.hosts())))),
        doubles_(placement.hosts() - count_) {}

  int count() const { return count_; }
  int of(int host) const { return host < 2 * doubles_ ? host / 2 : host - doubles_; }
  int first_host(int seat) const { return seat < doubles_ ? 2 * seat : seat + doubles_; }
  bool is_double(int seat) const { return seat < doubles_; }

  // What seat `seat` knows before the round of `width`.
  std::vector<int> known(int seat, int width) const {
    const int from = seat / width * width;
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
  int doubles_;
};

}  // namespace

std::string recursive_doubling(const Hosts& hosts, LeaderExchange& leaders, Partials& own,
                               const Reduction& reduction, std::size_t count, std::byte* result,
                               Deadline deadline) {
  const Seats seats(hosts.placement);
  const int seat = seats.of(hosts.host());
  const int first = seats.first_host(seat);
  const std::span<std::byte> whole{result, count * size_of(reduction.dtype)};
  const auto nodes = [&](const std::vector<int>& ranks) {
    return maximal_subtrees(reduction.leaves, ranks);
  };

  if (hosts.host() != first) {
    leaders.swap(first, own.data, whole);
    leaders.wait(deadline);
    return leaders.mismatch();
  }
  if (seats.is_double(seat)) {
    Partials second(nodes(hosts.placement.ranks_on(first + 1)), reduction, count);
    leaders.receive(first + 1, second.data);
    leaders.wait(deadline);
    const std::array<const Partials*, 2> both{&own, &second};
    if (leaders.mismatch().empty())
      own = combine(both, nodes(seats.known(seat, 1)), reduction, count);
  }
  // A leader that knows of a mismatch goes on to tell the others.
  for (int width = 1; width < seats.count(); width *= 2) {
    const int partner = seat ^ width;
    Partials theirs(nodes(seats.known(partner, width)), reduction, count);
    leaders.swap(seats.first_host(partner), own.data, theirs.data);
    leaders.wait(deadline);
    if (!leaders.mismatch().empty()) continue;
    const std::array<const Partials*, 2> both{&own, &theirs};
    if (2 * width == seats.count())
      finish(both, reduction, count, result);
    else
      own = combine(both, nodes(seats.known(seat, 2 * width)), reduction, count);
  }
  if (seats.is_double(seat)) {
    leaders.send(first + 1, whole);
    leaders.wait(deadline);
  }
  return leaders.mismatch();
}

}  // namespace cohort::collective
