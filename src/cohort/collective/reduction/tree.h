#pragma once

#include <span>
#include <vector>

// The one order of addition: a fixed binary tree over 0..n-1. See docs/algorithms.md.
namespace cohort::collective {

// A node of the tree, as the run of leaves under it.
struct Subtree {
  int first = 0;
  int count = 1;

  bool operator==(const Subtree&) const = default;
};

// How many of `count` >= 2 leaves stand under the left child: the largest power of two below it.
int left_leaves(int count);

// The fewest nodes of the tree over `leaves` leaves that cover exactly `members` (ascending).
std::vector<Subtree> maximal_subtrees(int leaves, std::span<const int> members);

}  // namespace cohort::collective
