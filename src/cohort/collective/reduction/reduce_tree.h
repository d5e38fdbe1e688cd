#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cohort/collective/reduction/kernels.h"
#include "cohort/collective/reduction/tree.h"

namespace cohort::collective {

// One input of a reduction: the contribution of a rank (count 1, in the element type), or the
// partial of a subtree (in the accumulator type, pre_scale applied).
struct TreeInput {
  Subtree node;
  bool partial = false;
};

struct Reduction {
  DataType dtype = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int leaves = 1;  // ranks under the whole tree: what average divides by
  double pre_scale = 1;
  double post_scale = 1;
};

// Bytes of one element of a node's value on its way to another rank: the raw contribution of a
// single rank, or an accumulator.
std::size_t bytes_of(const Subtree& node, const Reduction& reduction);
std::size_t bytes_of(std::span<const Subtree> nodes, const Reduction& reduction);

// Reduces a subtree in the one order of addition, from inputs that cover it. Made once a call, run
// on as many runs of elements as the caller likes. Immutable, thread-safe.
class TreeReducer {
 public:
  // `inputs` are disjoint and cover `root`. `partial`: the result is an accumulator, neither scaled
  // nor divided; otherwise `root` is the whole tree and the result is in the element type.
  TreeReducer(const Reduction& reduction, Subtree root, std::span<const TreeInput> inputs,
              bool partial);
  // The common case: every rank's contribution, in rank order.
  explicit TreeReducer(const Reduction& reduction);

  // inputs[i] and each output point to `elements` elements of their types. Outputs may be inputs.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::size_t elements) const;

  std::size_t accumulator_bytes() const { return kernels_.accumulator_bytes; }

 private:
  enum class Step { load, load_partial, pair, join, join_leaf, join_partial };
  struct Instruction {
    Step step;
    int level;   // the accumulator that it changes
    int input;   // load, pair, join_leaf
    int input2;  // pair
  };
  void compile(Subtree node, int level, std::span<const TreeInput> inputs);
  void run_block(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                 std::size_t from, std::size_t elements, std::byte* accumulators) const;
  void finish(std::byte* accumulator, std::size_t elements) const;

  Reduction reduction_;
  const Kernels& kernels_;
  std::size_t element_bytes_;
  bool partial_;
  int levels_ = 0;
  std::vector<Instruction> program_;
};

}  // namespace cohort::collective
