#include "cohort/parallel/devices/tree_sum.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

// What stands under the two children of `root`.
struct Halves {
  collective::Subtree left, right;
  std::span<const TreePart> left_parts, right_parts;
};

Halves halves_of(collective::Subtree root, std::span<const TreePart> parts) {
  const int left = collective::left_leaves(root.count);
  const auto is_left = [&](const TreePart& part) { return part.node.first < root.first + left; };
  const auto count = static_cast<std::size_t>(
      std::find_if_not(parts.begin(), parts.end(), is_left) - parts.begin());
  return {{root.first, left},
          {root.first + left, root.count - left},
          parts.first(count),
          parts.subspan(count)};
}

torch::Tensor sum_of(collective::Subtree root, std::span<const TreePart> parts) {
  COHORT_CHECK(!parts.empty(), "no part covers shards {} to {}", root.first,
               root.first + root.count - 1);
  if (parts.size() == 1 && parts[0].node == root)
    return parts[0].values.to(accumulator_of(parts[0].values.scalar_type()));
  const Halves halves = halves_of(root, parts);
  return torch::add(sum_of(halves.left, halves.left_parts),
                    sum_of(halves.right, halves.right_parts));
}

}  // namespace

void sum_in_tree(const torch::Tensor& into, collective::Subtree root,
                 std::span<const TreePart> parts, double scale) {
  const torch::NoGradGuard no_grad;
  torch::Tensor sum;
  if (parts.size() > 1 && accumulator_of(into.scalar_type()) == into.scalar_type()) {
    const Halves halves = halves_of(root, parts);
    sum = into;
    torch::add_out(sum, sum_of(halves.left, halves.left_parts),
                   sum_of(halves.right, halves.right_parts));
  } else {
    sum = sum_of(root, parts);
  }
  if (scale != 1) sum = sum.is_same(into) ? sum.mul_(scale) : sum * scale;
  if (!sum.is_same(into) && !(sum.data_ptr() == into.data_ptr())) into.detach().copy_(sum);
}

}  // namespace cohort::parallel
