#include "cohort/collective/reduction/shards.h"

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

std::vector<ShardRange> runs_of(int ranks, int shards, std::vector<ShardRange> given) {
  if (given.empty()) {
    for (int rank = 0; rank < ranks; ++rank) given.push_back(shards_of(rank, ranks, shards));
    return given;
  }
  if (given.size() != static_cast<std::size_t>(ranks))
    throw InvalidInput(fmt::format("{} runs of shards for {} ranks", given.size(), ranks));
  int next = 0;
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    const ShardRange run = given[rank];
    if (run.count < 0 || (run.count > 0 && run.first != next))
      throw InvalidInput(fmt::format("rank {} has {} shards from {} on, where {} comes next", rank,
                                     run.count, run.first, next));
    next += run.count;
  }
  if (next != shards || shards < 1)
    throw InvalidInput(fmt::format("the runs cover {} of {} shards", next, shards));
  return given;
}

int first_owner(std::span<const ShardRange> runs) {
  const auto owner =
      std::find_if(runs.begin(), runs.end(), [](ShardRange run) { return run.count > 0; });
  return owner == runs.end() ? 0 : static_cast<int>(owner - runs.begin());
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
