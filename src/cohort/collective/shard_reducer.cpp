#include "cohort/collective/shard_reducer.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/collective/reduction/reduce_tree.h"
#include "cohort/collective/reduction/slices.h"

namespace cohort::collective {

namespace {

constexpr std::size_t kWindow = 1 << 20;  // elements: what staging takes is bounded by it

std::vector<ShardPlan> plans_of(int shards, const std::vector<ShardRange>& runs) {
  std::vector<ShardPlan> plans;
  for (const ShardRange run : runs) plans.emplace_back(shards, run);
  return plans;
}

// Whether the tree over shards under `node`, cut at the runs of the ranks first, ..., is the tree
// over those ranks, each of which has shards.
bool is_tree_of_ranks(std::span<const ShardPlan> ranks, Subtree node) {
  if (ranks.size() == 1) return ranks[0].nodes() == std::vector<Subtree>{node};
  const auto left_ranks = static_cast<std::size_t>(left_leaves(static_cast<int>(ranks.size())));
  const int left = node.count > 1 ? left_leaves(node.count) : 0;
  if (ranks[left_ranks].nodes().front().first != node.first + left) return false;
  return is_tree_of_ranks(ranks.first(left_ranks), {node.first, left}) &&
         is_tree_of_ranks(ranks.subspan(left_ranks), {node.first + left, node.count - left});
}

void grow(Buffer& buffer, Group& group, std::size_t bytes) {
  if (buffer.bytes() < bytes) {
    buffer = Buffer();  // the old one is given back first
    buffer = group.allocate(bytes);
  }
}

void check_summable(DataType dtype) {
  if (dtype != DataType::f32 && dtype != DataType::f64 && dtype != DataType::f16 &&
      dtype != DataType::bf16)
    throw InvalidInput(fmt::format("shards of {} cannot be summed", to_string(dtype)),
                       {.advice = "Use f32, f64, f16 or bf16."});
}

}  // namespace

ShardReducer::ShardReducer(Group& group, int shards, std::vector<ShardRange> runs)
    : group_(group),
      plans_(plans_of(shards, runs_of(group.size(), shards, std::move(runs)))),
      all_own_(std::none_of(plans_.begin(), plans_.end(),
                            [](const ShardPlan& rank) { return rank.nodes().empty(); })),
      same_tree_(all_own_ && is_tree_of_ranks(plans_, {0, shards})) {}

bool ShardReducer::is_direct(DataType dtype) const {
  if (!all_own_) return false;
  if (plan().shards() == group_.size()) return true;
  return same_tree_ && (dtype == DataType::f32 || dtype == DataType::f64);
}

TreeReducer ShardReducer::reducer_of_all(const Reduction& reduction) const {
  std::vector<TreeInput> inputs;
  for (const ShardPlan& rank : plans_)
    for (const Subtree& node : rank.nodes()) inputs.push_back({node, node.count > 1});
  return {reduction, {0, plan().shards()}, inputs, false};
}

void ShardReducer::all_reduce(std::span<std::byte* const> partials, std::byte* result,
                              std::size_t elements, DataType dtype, double post_scale,
                              CallOptions options) {
  check_summable(dtype);
  COHORT_CHECK(partials.size() == plan().nodes().size(), "{} partials for {} nodes",
               partials.size(), plan().nodes().size());
  if (elements == 0) return;
  if (is_direct(dtype)) {
    group_.all_reduce(partials[0], result, elements, dtype,
                      {.post_scale = post_scale, .deadline = options.deadline});
    return;
  }
  const Reduction reduction{dtype, ReduceOp::sum, plan().shards(), 1, post_scale};
  const TreeReducer reducer = reducer_of_all(reduction);
  if (group_.size() == 1) {
    const std::vector<const std::byte*> own(partials.begin(), partials.end());
    reducer.run(own, {&result, 1}, elements);
    return;
  }
  exchange(partials, result, elements, reducer, reduction, options);
}

void ShardReducer::reduce_scatter(std::span<std::byte* const> partials, std::byte* result,
                                  std::span<const std::size_t> counts, DataType dtype,
                                  double post_scale, CallOptions options) {
  check_summable(dtype);
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto self = static_cast<std::size_t>(group_.rank());
  const std::size_t each = counts[0];
  COHORT_CHECK(
      partials.size() == plan().nodes().size() && counts.size() == ranks && counts.back() >= each,
      "{} partials for {} nodes, {} counts", partials.size(), plan().nodes().size(), counts.size());
  const std::size_t element = size_of(dtype);
  if (is_direct(dtype)) {
    const ReduceOptions how{.post_scale = post_scale, .deadline = options.deadline};
    group_.reduce_scatter(partials[0], result, each, dtype, how);
    if (const std::size_t rest = counts.back() - each; rest > 0)
      group_.reduce(partials[0] + each * ranks * element, result + each * element, rest, dtype,
                    group_.size() - 1, how);
    return;
  }
  const Reduction reduction{dtype, ReduceOp::sum, plan().shards(), 1, post_scale};
  const TreeReducer reducer = reducer_of_all(reduction);
  const std::size_t window = std::max<std::size_t>(kWindow / ranks, 1);
  for (std::size_t from = 0; from < counts.back(); from += window) {
    std::vector<Range> slices;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t at = std::min(from, counts[rank]);
      slices.push_back({each * rank + at, std::min(window, counts[rank] - at)});
    }
    reduce_slices(partials, slices, result + std::min(from, counts[self]) * element, reducer,
                  reduction, options);
  }
}

void ShardReducer::exchange(std::span<std::byte* const> partials, std::byte* result,
                            std::size_t elements, const TreeReducer& reducer,
                            const Reduction& reduction, const CallOptions& options) {
  const std::size_t element = size_of(reduction.dtype);
  const auto self = static_cast<std::size_t>(group_.rank());
  for (std::size_t from = 0; from < elements; from += kWindow) {
    const std::size_t window = std::min(kWindow, elements - from);
    std::vector<Range> slices;
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < group_.size(); ++rank) {
      slices.push_back(slice_of(window, element, rank, group_.size()));
      slices.back().from += from;
      counts.push_back(slices.back().count);
    }
    reduce_slices(partials, slices, result + slices[self].from * element, reducer, reduction,
                  options);
    group_.all_gather_v(nullptr, result + from * element, counts, reduction.dtype, options);
  }
}

// Rank j gets slices[j] of every rank's partials, and leaves the sum in `mine`.
void ShardReducer::reduce_slices(std::span<std::byte* const> partials,
                                 std::span<const Range> slices, std::byte* mine,
                                 const TreeReducer& reducer, const Reduction& reduction,
                                 const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto self = static_cast<std::size_t>(group_.rank());
  const auto& own = plan().nodes();
  std::vector<std::size_t> send(ranks), receive(ranks);
  std::size_t send_bytes = 0, receive_bytes = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    send[rank] = slices[rank].count * bytes_of(own, reduction);
    receive[rank] = slices[self].count * bytes_of(plans_[rank].nodes(), reduction);
    send_bytes += send[rank];
    receive_bytes += receive[rank];
  }
  grow(sending_, group_, std::max<std::size_t>(send_bytes, 1));
  grow(receiving_, group_, std::max<std::size_t>(receive_bytes, 1));
  std::byte* to = sending_.data();
  for (const Range& slice : slices)
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t bytes = bytes_of(own[i], reduction);
      copy_bytes(to, partials[i] + slice.from * bytes, slice.count * bytes);
      to += slice.count * bytes;
    }
  group_.all_to_all_v(sending_.data(), send, receiving_.data(), receive, DataType::u8, options);
  std::vector<const std::byte*> inputs;
  const std::byte* at = receiving_.data();
  for (const ShardPlan& rank : plans_)
    for (const Subtree& node : rank.nodes()) {
      inputs.push_back(at);
      at += slices[self].count * bytes_of(node, reduction);
    }
  reducer.run(inputs, {&mine, 1}, slices[self].count);
}

}  // namespace cohort::collective
