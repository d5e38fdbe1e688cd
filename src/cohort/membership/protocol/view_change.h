#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/membership/protocol/view.h"

namespace cohort::membership {

// A view, written as what differs from an older one. A death among 10,000 members is then told in
// some 100 bytes to each, not in half a megabyte. Survivors keep their order and newcomers stand
// behind them, so removals, additions and stages are all there is to say. A value.
struct ViewChange {
  struct Stages {
    std::uint32_t members = 0;  // so many ranks in a row
    std::int64_t stage = kNoState;
    bool operator==(const Stages&) const = default;
  };
  std::uint64_t base = 0;  // 0: none, all members are in `added`
  std::uint64_t number = 0;
  std::vector<std::uint32_t> removed;  // ranks of the base, rising
  std::vector<MemberInfo> added;
  std::vector<Stages> stages;  // of all members, by rank
  std::string reason;
  bool operator==(const ViewChange&) const = default;
};

// How `next` follows from `base` (number 0: from nothing). `removed` are the ranks of the base that
// are not in it; InvalidInput when the two do not fit.
ViewChange change_between(const View& base, std::vector<std::uint32_t> removed, const View& next);
// ProtocolError when the change is not one of this view.
View apply(const View& base, const ViewChange& change);

}  // namespace cohort::membership
