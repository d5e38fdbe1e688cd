#include "cohort/collective/shards.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/error.h"

namespace cohort::collective {

ShardRange shards_of(int rank, int ranks, int shards) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw InvalidInput(fmt::format("rank {} is not one of {} ranks", rank, ranks));
  if (shards < ranks)
    throw InvalidInput(fmt::format("{} virtual shards are too few for {} replicas", shards, ranks),
                       {.advice = fmt::format("Give at least {}, or use fewer replicas.", ranks)});
  const int each = shards / ranks;
  const int larger = shards % ranks;  // the first ones have one more
  return {rank * each + std::min(rank, larger), each + (rank < larger ? 1 : 0)};
}

ShardPlan::ShardPlan(int shards, ShardRange own) : shards_(shards) {
  std::vector<int> members(static_cast<std::size_t>(own.count));
  std::iota(members.begin(), members.end(), own.first);
  nodes_ = maximal_subtrees(shards, members);
  std::vector<Subtree> stack;
  for (std::size_t done = 1; done <= members.size(); ++done) {
    // A new shard changes only the node that holds it: the last of those known so far.
    Step step;
    step.node = maximal_subtrees(shards, {members.data(), done}).back();
    const auto top = std::find_if(stack.begin(), stack.end(),
                                  [&](Subtree node) { return node.first >= step.node.first; });
    for (auto it = top; it != stack.end(); ++it) step.inputs.push_back({*it, it->count > 1});
    step.inputs.push_back({{members[done - 1], 1}, false});
    stack.erase(top, stack.end());
    const auto final = std::find(nodes_.begin(), nodes_.end(), step.node);
    if (final == nodes_.end())
      stack.push_back(step.node);
    else
      step.final = static_cast<int>(final - nodes_.begin());
    steps_.push_back(std::move(step));
  }
}

}  // namespace cohort::collective
