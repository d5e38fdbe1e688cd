#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/shards.h"
#include "cohort/parallel/bucket_layout.h"

namespace cohort::parallel {

// The memory of one bucket: the gradients, which autograd's parameters see as views, and where the
// rank's shards leave partials that its group needs besides (collective/shards.h).
//
// Threads: immutable but for the memory's contents, which belong to the replica's thread until the
// bucket is handed over, then to the communication thread until its Work is done.
// Ownership: views keep the memory of the gradients alive, also after the Bucket.
class Bucket {
 public:
  // `nodes`: what the rank holds after its last shard.
  Bucket(collective::Group& group, BucketLayout layout, std::span<const torch::Tensor> parameters,
         std::span<const collective::Subtree> nodes);

  const BucketLayout& layout() const { return layout_; }
  std::size_t bytes() const { return values_->bytes(); }
  std::byte* values() const { return values_->data(); }
  torch::Tensor flat() const;  // of the gradients, as one dimension

  // The gradient of the entry's parameter, shaped and strided like it.
  const torch::Tensor& view(std::size_t entry) const { return views_[entry]; }

  // One array for each node: its values in the bucket's dtype for a single shard, otherwise in the
  // accumulator type. The last is values() where the types are the same.
  std::span<std::byte* const> partials() const { return partials_; }
  std::byte* partial(int node, std::size_t entry) const;

 private:
  BucketLayout layout_;
  std::shared_ptr<collective::Buffer> values_;
  std::vector<torch::Tensor> views_;
  std::vector<collective::Buffer> more_;
  std::vector<std::byte*> partials_;
  std::vector<std::size_t> element_bytes_;  // of each of partials_
};

}  // namespace cohort::parallel
