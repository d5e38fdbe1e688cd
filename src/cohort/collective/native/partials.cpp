#include "cohort/collective/native/partials.h"

#include <algorithm>

#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective {

namespace {

bool inside(const Subtree& inner, const Subtree& outer) {
  return inner.first >= outer.first && inner.first + inner.count <= outer.first + outer.count;
}

// The inputs of `root` among the sources, and where their values are.
struct Inputs {
  std::vector<TreeInput> nodes;
  std::vector<const std::byte*> data;

  Inputs(std::span<const Partials* const> sources, const Subtree& root, const Reduction& reduction,
         std::size_t count) {
    for (const Partials* source : sources) {
      const std::byte* at = source->data.data();
      for (const Subtree& node : source->nodes) {
        if (inside(node, root)) {
          nodes.push_back({node, node.count > 1});
          data.push_back(at);
        }
        at += count * bytes_of(node, reduction);
      }
    }
  }
};

}  // namespace

void reduce_node(const Reduction& reduction, const Subtree& node, std::span<const int> ranks,
                 std::span<const Chunk> chunks, std::byte* to) {
  const auto first = static_cast<std::size_t>(
      std::lower_bound(ranks.begin(), ranks.end(), node.first) - ranks.begin());
  if (node.count == 1) {
    copy_bytes(to, chunks[first].data, chunks[first].bytes);
    return;
  }
  std::vector<TreeInput> leaves;
  std::vector<const std::byte*> data;
  for (int i = 0; i < node.count; ++i) {
    leaves.push_back({{node.first + i, 1}, false});
    data.push_back(chunks[first + static_cast<std::size_t>(i)].data);
  }
  TreeReducer(reduction, node, leaves, true)
      .run(data, {&to, 1}, chunks[first].bytes / size_of(reduction.dtype));
}

Partials::Partials(std::vector<Subtree> nodes_given, const Reduction& reduction, std::size_t count)
    : nodes(std::move(nodes_given)), data(count * bytes_of(nodes, reduction)) {}

Partials combine(std::span<const Partials* const> sources, std::vector<Subtree> target,
                 const Reduction& reduction, std::size_t count) {
  Partials result(std::move(target), reduction, count);
  std::byte* to = result.data.data();
  for (const Subtree& node : result.nodes) {
    const Inputs inputs(sources, node, reduction, count);
    const std::size_t bytes = count * bytes_of(node, reduction);
    if (inputs.nodes.size() == 1)
      copy_bytes(to, inputs.data[0], bytes);
    else
      TreeReducer(reduction, node, inputs.nodes, true).run(inputs.data, {&to, 1}, count);
    to += bytes;
  }
  return result;
}

void finish(std::span<const Partials* const> sources, const Reduction& reduction, std::size_t count,
            std::byte* result) {
  const Subtree whole{0, reduction.leaves};
  const Inputs inputs(sources, whole, reduction, count);
  TreeReducer(reduction, whole, inputs.nodes, false).run(inputs.data, {&result, 1}, count);
}

}  // namespace cohort::collective
