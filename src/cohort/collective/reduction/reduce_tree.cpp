#include "cohort/collective/reduction/reduce_tree.h"

#include <algorithm>
#include <bit>

#include "cohort/base/error.h"

namespace cohort::collective {

namespace {

// Accumulators of one block stay in the first-level cache, one array a level of the tree.
constexpr std::size_t kBlockBytes = 4096;
constexpr int kMaxLevels = 24;

std::vector<TreeInput> every_rank(int leaves) {
  std::vector<TreeInput> inputs(static_cast<std::size_t>(leaves));
  for (int i = 0; i < leaves; ++i) inputs[i].node = {i, 1};
  return inputs;
}

}  // namespace

std::size_t bytes_of(const Subtree& node, const Reduction& reduction) {
  return node.count > 1 ? kernels(reduction.dtype, reduction.op).accumulator_bytes
                        : size_of(reduction.dtype);
}

std::size_t bytes_of(std::span<const Subtree> nodes, const Reduction& reduction) {
  std::size_t bytes = 0;
  for (const Subtree& node : nodes) bytes += bytes_of(node, reduction);
  return bytes;
}

TreeReducer::TreeReducer(const Reduction& reduction, Subtree root,
                         std::span<const TreeInput> inputs, bool partial)
    : reduction_(reduction),
      kernels_(kernels(reduction.dtype, reduction.op)),
      element_bytes_(size_of(reduction.dtype)),
      partial_(partial) {
  compile(root, 0, inputs);
  COHORT_CHECK(levels_ <= kMaxLevels, "{} leaves make too deep a tree", reduction.leaves);
}

TreeReducer::TreeReducer(const Reduction& reduction)
    : TreeReducer(reduction, {0, reduction.leaves}, every_rank(reduction.leaves), false) {}

void TreeReducer::compile(Subtree node, int level, std::span<const TreeInput> inputs) {
  levels_ = std::max(levels_, level + 1);
  const auto find = [&](Subtree wanted) {
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const TreeInput& input) { return input.node == wanted; });
    return it == inputs.end() ? -1 : static_cast<int>(it - inputs.begin());
  };
  // A contribution that needs no scaling goes straight into the operation.
  const auto is_leaf = [&](int input) {
    return input >= 0 && !inputs[input].partial && reduction_.pre_scale == 1;
  };
  if (const int input = find(node); input >= 0) {
    program_.push_back({inputs[input].partial ? Step::load_partial : Step::load, level, input, -1});
    return;
  }
  COHORT_CHECK(node.count > 1, "no input for rank {}", node.first);
  const int left_count = left_leaves(node.count);
  const Subtree left{node.first, left_count};
  const Subtree right{node.first + left_count, node.count - left_count};
  const int left_input = find(left);
  const int right_input = find(right);
  if (is_leaf(left_input) && is_leaf(right_input)) {
    program_.push_back({Step::pair, level, left_input, right_input});
    return;
  }
  compile(left, level, inputs);
  if (is_leaf(right_input)) {
    program_.push_back({Step::join_leaf, level, right_input, -1});
  } else if (right_input >= 0 && inputs[right_input].partial) {
    program_.push_back({Step::join_partial, level, right_input, -1});
  } else {
    compile(right, level + 1, inputs);
    program_.push_back({Step::join, level, -1, -1});
  }
}

void TreeReducer::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                      std::size_t elements) const {
  if (elements == 0 || outputs.empty()) return;
  const bool average = reduction_.op == ReduceOp::average;
  if (!partial_ && program_.size() == 1 && program_[0].step == Step::pair && outputs.size() <= 2 &&
      reduction_.post_scale == 1) {
    if (const auto fused = average ? kernels_.pair_to_halved : kernels_.pair_to) {
      fused(outputs.front(), outputs.back(), inputs[program_[0].input], inputs[program_[0].input2],
            elements);
      return;
    }
  }
  alignas(64) std::byte accumulators[kBlockBytes * kMaxLevels];
  const std::size_t block = kBlockBytes / kernels_.accumulator_bytes;
  for (std::size_t from = 0; from < elements; from += block)
    run_block(inputs, outputs, from, std::min(block, elements - from), accumulators);
}

void TreeReducer::run_block(std::span<const std::byte* const> inputs,
                            std::span<std::byte* const> outputs, std::size_t from,
                            std::size_t elements, std::byte* accumulators) const {
  const auto contribution = [&](int input) { return inputs[input] + from * element_bytes_; };
  const auto partial = [&](int input) { return inputs[input] + from * kernels_.accumulator_bytes; };
  for (const Instruction& instruction : program_) {
    std::byte* accumulator =
        accumulators + kBlockBytes * static_cast<std::size_t>(instruction.level);
    switch (instruction.step) {
      case Step::load:
        kernels_.load(accumulator, contribution(instruction.input), elements);
        if (reduction_.pre_scale != 1) kernels_.scale(accumulator, reduction_.pre_scale, elements);
        break;
      case Step::load_partial:
        copy_bytes(accumulator, partial(instruction.input), elements * kernels_.accumulator_bytes);
        break;
      case Step::pair:
        kernels_.pair(accumulator, contribution(instruction.input),
                      contribution(instruction.input2), elements);
        break;
      case Step::join:
        kernels_.join(accumulator, accumulator + kBlockBytes, elements);
        break;
      case Step::join_leaf:
        kernels_.join_leaf(accumulator, contribution(instruction.input), elements);
        break;
      case Step::join_partial:
        kernels_.join(accumulator, partial(instruction.input), elements);
        break;
    }
  }
  finish(accumulators, elements);
  const std::size_t bytes = partial_ ? kernels_.accumulator_bytes : element_bytes_;
  std::byte* first = outputs.front() + from * bytes;
  if (partial_)
    copy_bytes(first, accumulators, elements * bytes);
  else
    kernels_.store(first, accumulators, elements);
  for (std::byte* output : outputs.subspan(1))
    copy_bytes(output + from * bytes, first, elements * bytes);
}

void TreeReducer::finish(std::byte* accumulator, std::size_t elements) const {
  if (partial_) return;
  if (reduction_.post_scale != 1) kernels_.scale(accumulator, reduction_.post_scale, elements);
  if (reduction_.op != ReduceOp::average) return;
  // Multiplying by the inverse of a power of two is the division, only faster; integers divide.
  const bool floating = reduction_.dtype == DataType::f32 || reduction_.dtype == DataType::f64 ||
                        reduction_.dtype == DataType::f16 || reduction_.dtype == DataType::bf16;
  if (floating && std::has_single_bit(static_cast<unsigned>(reduction_.leaves)))
    kernels_.scale(accumulator, 1.0 / reduction_.leaves, elements);
  else
    kernels_.divide(accumulator, reduction_.leaves, elements);
}

}  // namespace cohort::collective
