#include "cohort/membership/protocol/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace cohort::membership {

std::string MemberInfo::id() const { return fmt::format("{}.{}.{}", task, incarnation, rejoins); }

int View::rank_of(std::string_view id) const {
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (members[rank].info.id() == id) return static_cast<int>(rank);
  return -1;
}

std::int64_t View::stage() const {
  std::int64_t most = kNoState;
  for (const ViewMember& member : members) most = std::max(most, member.stage);
  return most;
}

std::vector<int> View::behind() const {
  const std::int64_t most = stage();
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (members[static_cast<std::size_t>(rank)].stage < most) ranks.push_back(rank);
  return ranks;
}

int View::donor() const {
  const auto first =
      std::find_if(members.begin(), members.end(),
                   [most = stage()](const ViewMember& member) { return member.stage == most; });
  return static_cast<int>(first - members.begin());
}

}  // namespace cohort::membership
