#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cohort/collective/native/exchange.h"
#include "cohort/collective/reduction/reduce_tree.h"

namespace cohort::collective {

// Reduces a node, all of whose ranks run on this host, into `to`. `ranks` are the host's,
// ascending; chunks[i] belongs to ranks[i].
void reduce_node(const Reduction& reduction, const Subtree& node, std::span<const int> ranks,
                 std::span<const Chunk> chunks, std::byte* to);

// Some nodes of the tree with their values for `count` elements, one node after the other.
struct Partials {
  std::vector<Subtree> nodes;
  std::vector<std::byte> data;

  Partials() = default;
  Partials(std::vector<Subtree> nodes, const Reduction& reduction, std::size_t count);
};

// `target` evaluated from partials that cover it.
Partials combine(std::span<const Partials* const> sources, std::vector<Subtree> target,
                 const Reduction& reduction, std::size_t count);
// The whole tree, scaled and rounded, in the caller's type.
void finish(std::span<const Partials* const> sources, const Reduction& reduction, std::size_t count,
            std::byte* result);

}  // namespace cohort::collective
