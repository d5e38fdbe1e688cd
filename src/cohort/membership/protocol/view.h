#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::membership {

// Training is a sequence of stages: a step, the callbacks after it, the end of an epoch. A stage is
// committed at once and as a whole, and depends on the state before it alone, so it can be done
// again by the members of a later view.
inline constexpr std::int64_t kNoState = -1;  // in the place of a stage: a newcomer

// One run of one worker, as the coordinator knows it. `id` is never used twice: the task, how often
// its process was started before, how often this process was shut out and came again.
struct MemberInfo {
  std::string task;  // "worker/3"
  int incarnation = 0;
  int rejoins = 0;
  std::string host;
  std::int64_t pid = 0;

  std::string id() const;  // "worker/3.0.0"
  bool operator==(const MemberInfo&) const = default;
};

struct ViewMember {
  MemberInfo info;
  std::int64_t stage = kNoState;  // how many stages it has committed
  bool operator==(const ViewMember&) const = default;
};

// Who trains together, until the next view. Members stand in the order of their ranks; who was
// there before comes before newcomers, in the same order as before. A value.
struct View {
  std::uint64_t number = 0;  // 0: there is none yet
  std::vector<ViewMember> members;
  std::string reason;  // why it differs from the one before, for people

  int size() const { return static_cast<int>(members.size()); }
  int rank_of(std::string_view id) const;  // -1: not a member
  // Where training goes on: the most that any member has committed; kNoState: from the beginning.
  std::int64_t stage() const;
  // Members that have less than stage() copy from the first that has it.
  int donor() const;
  bool is_behind(int rank) const { return members[static_cast<std::size_t>(rank)].stage < stage(); }
  std::vector<int> behind() const;  // the ranks of all of them, ascending
  bool operator==(const View&) const = default;
};

}  // namespace cohort::membership
