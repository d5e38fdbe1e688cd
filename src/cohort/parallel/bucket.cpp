#include "cohort/parallel/bucket.h"

#include <cstring>

#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

// Strides as autograd gives gradients: the parameter's where it fills its memory, else in order.
std::vector<std::int64_t> gradient_strides(const torch::Tensor& parameter) {
  if (parameter.unsafeGetTensorImpl()->is_non_overlapping_and_dense())
    return parameter.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(parameter.dim()));
  std::int64_t next = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(parameter.size(static_cast<std::int64_t>(i)), 1);
  }
  return strides;
}

}  // namespace

Bucket::Bucket(collective::Group& group, BucketLayout layout,
               std::span<const torch::Tensor> parameters,
               std::span<const collective::Subtree> nodes)
    : layout_(std::move(layout)) {
  const std::size_t element = torch::elementSize(layout_.dtype);
  const std::size_t accumulator = torch::elementSize(accumulator_of(layout_.dtype));
  values_ = std::make_shared<collective::Buffer>(
      group.allocate(std::max<std::size_t>(layout_.elements, 1) * element));
  std::memset(values_->data(), 0, values_->bytes());  // the gaps are summed, too
  for (const BucketEntry& entry : layout_.entries) {
    const torch::Tensor& parameter = parameters[static_cast<std::size_t>(entry.parameter)];
    views_.push_back(torch::from_blob(
        values_->data() + entry.offset * element, parameter.sizes(), gradient_strides(parameter),
        [memory = values_](void*) {}, torch::TensorOptions().dtype(layout_.dtype)));
  }
  for (const collective::Subtree& node : nodes) {
    element_bytes_.push_back(node.count > 1 ? accumulator : element);
    if (&node == &nodes.back() && element_bytes_.back() == element) {
      partials_.push_back(values_->data());
    } else {
      more_.push_back(
          group.allocate(std::max<std::size_t>(layout_.elements, 1) * element_bytes_.back()));
      std::memset(more_.back().data(), 0, more_.back().bytes());
      partials_.push_back(more_.back().data());
    }
  }
}

torch::Tensor Bucket::flat() const {
  return torch::from_blob(
      values_->data(), {static_cast<std::int64_t>(layout_.elements)}, [memory = values_](void*) {},
      torch::TensorOptions().dtype(layout_.dtype));
}

std::byte* Bucket::partial(int node, std::size_t entry) const {
  const auto i = static_cast<std::size_t>(node);
  return partials_[i] + layout_.entries[entry].offset * element_bytes_[i];
}

}  // namespace cohort::parallel
