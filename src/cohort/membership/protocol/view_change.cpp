#include "cohort/membership/protocol/view_change.h"

#include <fmt/format.h>

#include "cohort/base/error.h"

namespace cohort::membership {

ViewChange change_between(const View& base, std::vector<std::uint32_t> removed, const View& next) {
  if (removed.size() > base.members.size() ||
      next.members.size() < base.members.size() - removed.size())
    throw InvalidInput(fmt::format("view {} has {} members, too few after {} of {} were removed",
                                   next.number, next.size(), removed.size(), base.size()));
  ViewChange change;
  change.base = base.number;
  change.number = next.number;
  change.removed = std::move(removed);
  change.reason = next.reason;
  for (std::size_t rank = base.members.size() - change.removed.size(); rank < next.members.size();
       ++rank)
    change.added.push_back(next.members[rank].info);
  for (const ViewMember& member : next.members) {
    if (change.stages.empty() || change.stages.back().stage != member.stage)
      change.stages.push_back({0, member.stage});
    ++change.stages.back().members;
  }
  return change;
}

View apply(const View& base, const ViewChange& change) {
  if (change.base != base.number)
    throw ProtocolError(fmt::format("view {} is told as a change of view {}, but view {} is known",
                                    change.number, change.base, base.number));
  View next;
  next.number = change.number;
  next.reason = change.reason;
  next.members.reserve(base.members.size() + change.added.size());
  auto removed = change.removed.begin();
  for (std::uint32_t rank = 0; rank < base.members.size(); ++rank) {
    if (removed != change.removed.end() && *removed == rank)
      ++removed;
    else
      next.members.push_back(base.members[rank]);
  }
  if (removed != change.removed.end())
    throw ProtocolError(fmt::format("view {} removes rank {} of {}, out of order or not there",
                                    change.number, *removed, base.size()));
  for (const MemberInfo& info : change.added) next.members.push_back({info, kNoState});
  std::size_t rank = 0;
  for (const ViewChange::Stages& run : change.stages) {
    if (run.members > next.members.size() - rank)
      throw ProtocolError(fmt::format("view {} tells more stages than it has members ({})",
                                      change.number, next.size()));
    for (std::uint32_t i = 0; i < run.members; ++i) next.members[rank++].stage = run.stage;
  }
  if (rank != next.members.size())
    throw ProtocolError(
        fmt::format("view {} tells {} stages for {} members", change.number, rank, next.size()));
  return next;
}

}  // namespace cohort::membership
