#include "cohort/parallel/gradients/bucket.h"

#include <cstring>

#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

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

Bucket::Bucket(collective::Group& group, BucketLayout layout,
               std::span<const torch::Tensor> parameters,
               std::span<const collective::Subtree> nodes, bool adopts)
    : layout_(std::move(layout)), adopts_(adopts) {
  for (const BucketEntry& entry : layout_.entries) {
    const torch::Tensor& parameter = parameters[static_cast<std::size_t>(entry.parameter)];
    sizes_.push_back(parameter.sizes().vec());
    strides_.push_back(gradient_strides(parameter));
  }
  views_.resize(layout_.entries.size());
  if (adopts) {
    partials_.resize(nodes.size());
    element_bytes_.resize(nodes.size(), torch::elementSize(layout_.dtype));
    kept_.resize(nodes.size() - 1);
    return;
  }
  const std::size_t elements = std::max<std::size_t>(layout_.elements, 1);
  const std::size_t element = torch::elementSize(layout_.dtype);
  const std::size_t accumulator = torch::elementSize(accumulator_of(layout_.dtype));
  memory_ = std::make_shared<collective::Buffer>(group.allocate(elements * element));
  values_ = memory_->data();
  std::memset(values_, 0, memory_->bytes());  // the gaps are summed, too
  for (std::size_t i = 0; i < views_.size(); ++i)
    views_[i] = torch::from_blob(
        values_ + layout_.entries[i].offset * element, sizes_[i], strides_[i],
        [memory = memory_](void*) {}, torch::TensorOptions().dtype(layout_.dtype));
  for (const collective::Subtree& node : nodes) {
    element_bytes_.push_back(node.count > 1 ? accumulator : element);
    if (&node == &nodes.back() && element_bytes_.back() == element) {
      partials_.push_back(values_);
    } else {
      more_.push_back(group.allocate(elements * element_bytes_.back()));
      std::memset(more_.back().data(), 0, more_.back().bytes());
      partials_.push_back(more_.back().data());
    }
  }
}

torch::Tensor Bucket::make_like(std::size_t entry) const {
  return torch::empty_strided(sizes_[entry], strides_[entry],
                              torch::TensorOptions().dtype(layout_.dtype));
}

bool Bucket::is_like(std::size_t entry, const torch::Tensor& gradient) const {
  return gradient.device().is_cpu() && gradient.scalar_type() == layout_.dtype &&
         gradient.sizes() == sizes_[entry] && gradient.strides() == strides_[entry];
}

void Bucket::adopt(torch::Tensor gradient) {
  values_ = static_cast<std::byte*>(gradient.data_ptr());
  partials_.back() = values_;
  views_[0] = std::move(gradient);
}

void Bucket::keep(int node, torch::Tensor partial) {
  const auto i = static_cast<std::size_t>(node);
  partials_[i] = static_cast<std::byte*>(partial.data_ptr());
  kept_[i] = std::move(partial);
}

void Bucket::release() {
  if (adopts_) views_[0].reset();
  for (torch::Tensor& partial : kept_) partial.reset();
}

void Bucket::scatter(std::vector<std::size_t> counts, torch::Tensor own) {
  counts_ = std::move(counts);
  own_ = std::move(own);
}

torch::Tensor Bucket::flat() const {
  return torch::from_blob(
      values_, {static_cast<std::int64_t>(layout_.elements)},
      [memory = memory_, adopted = views_[0]](void*) {},
      torch::TensorOptions().dtype(layout_.dtype));
}

std::byte* Bucket::partial(int node, std::size_t entry) const {
  const auto i = static_cast<std::size_t>(node);
  return partials_[i] + layout_.entries[entry].offset * element_bytes_[i];
}

}  // namespace cohort::parallel
