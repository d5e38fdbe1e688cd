#include "cohort/parallel/gradients/gradient_buckets.h"

#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

// From this size on a gradient is summed where autograd makes it instead of being copied.
constexpr std::size_t kLarge = 1 << 20;

}  // namespace

GradientBuckets::GradientBuckets(collective::Group& group, std::vector<torch::Tensor> parameters,
                                 const collective::ShardPlan& plan, std::size_t first_bytes,
                                 std::size_t bytes, std::shared_ptr<GradientMemory> memory,
                                 std::shared_ptr<GradientShares> shares)
    : group_(group),
      parameters_(std::move(parameters)),
      plan_(plan),
      sizes_{first_bytes, bytes, shares ? Partition::kLeastCut : kLarge},
      shares_(std::move(shares)) {
  for (const torch::Tensor& parameter : parameters_)
    if (is_large(parameter)) large_bytes_.push_back(parameter.nbytes());
  if (!large_bytes_.empty())
    memory_ = memory ? std::move(memory) : std::make_shared<GradientMemory>(group);
}

const GradientShares::Share* GradientBuckets::share_of(const torch::Tensor& parameter) const {
  return shares_ ? shares_->find(parameter) : nullptr;
}

bool GradientBuckets::is_large(const torch::Tensor& parameter) const {
  return parameter.device().is_cpu() && parameter.nbytes() >= sizes_.own_bytes &&
         accumulator_of(parameter.scalar_type()) == parameter.scalar_type() &&
         !plan_.nodes().empty();
}

void GradientBuckets::lay_out(const std::vector<int>& order) {
  buckets_.clear();
  locations_.assign(parameters_.size(), {});
  for (BucketLayout& layout : lay_out_buckets(parameters_, order, sizes_)) {
    for (std::size_t entry = 0; entry < layout.entries.size(); ++entry)
      locations_[static_cast<std::size_t>(layout.entries[entry].parameter)] = {buckets_.size(),
                                                                               entry};
    const bool adopts =
        layout.entries.size() == 1 &&
        is_large(parameters_[static_cast<std::size_t>(layout.entries[0].parameter)]);
    const auto* share =
        adopts ? share_of(parameters_[static_cast<std::size_t>(layout.entries[0].parameter)])
               : nullptr;
    buckets_.push_back(
        std::make_unique<Bucket>(group_, std::move(layout), parameters_, plan_.nodes(), adopts));
    if (share != nullptr) buckets_.back()->scatter(share->counts, share->own);
  }
}

std::vector<BucketLayout> GradientBuckets::layouts() const {
  std::vector<BucketLayout> layouts;
  for (const auto& bucket : buckets_) layouts.push_back(bucket->layout());
  return layouts;
}

void GradientBuckets::release() {
  for (const auto& bucket : buckets_) bucket->release();
}

void GradientBuckets::use_memory(std::optional<GradientMemory::Use>& use,
                                 GradientMemory::Reader reader) const {
  if (memory_) use.emplace(*memory_, reader, large_bytes_);
}

}  // namespace cohort::parallel
