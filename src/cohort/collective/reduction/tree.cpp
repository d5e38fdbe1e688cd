#include "cohort/collective/reduction/tree.h"

#include <algorithm>
#include <bit>

namespace cohort::collective {

int left_leaves(int count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
}

namespace {

void collect(Subtree node, std::span<const int> members, std::vector<Subtree>& result) {
  const auto from = std::lower_bound(members.begin(), members.end(), node.first);
  const auto to = std::lower_bound(from, members.end(), node.first + node.count);
  if (from == to) return;
  if (to - from == node.count) {
    result.push_back(node);
    return;
  }
  const int left = left_leaves(node.count);
  collect({node.first, left}, members, result);
  collect({node.first + left, node.count - left}, members, result);
}

}  // namespace

std::vector<Subtree> maximal_subtrees(int leaves, std::span<const int> members) {
  std::vector<Subtree> result;
  collect({0, leaves}, members, result);
  return result;
}

}  // namespace cohort::collective
