#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/bucket_layout.h"

namespace cohort::parallel {

// The strides with which a parameter's values lie in its bucket, as autograd gives gradients: the
// parameter's own where it fills its memory, else in order.
std::vector<std::int64_t> gradient_strides(const torch::Tensor& parameter);

// The memory of one bucket: the gradients, which autograd's parameters see as views, and where the
// rank's shards leave partials that its group needs besides (ShardPlan). A bucket of one
// large parameter has no memory of its own: step by step it adopts the gradient that autograd made
// for the last shard, and keeps the tensors of the partials before it, which no other rank reads.
//
// Threads: it and its memory's contents belong to the replica's thread until the bucket is handed
// over, then to the communication thread until its Work is done.
// Ownership: views keep the memory of the gradients alive, also after the Bucket.
class Bucket {
 public:
  // `nodes`: what the rank holds after its last shard; none where it has no shards. `adopts`: the
  // layout has one entry, there is a node, and all nodes' values are of the bucket's type.
  Bucket(collective::Group& group, BucketLayout layout, std::span<const torch::Tensor> parameters,
         std::span<const collective::Subtree> nodes, bool adopts);

  const BucketLayout& layout() const { return layout_; }
  std::size_t bytes() const { return layout_.elements * torch::elementSize(layout_.dtype); }
  std::byte* values() const { return values_; }
  torch::Tensor flat() const;  // of the gradients, as one dimension

  // The gradient of the entry's parameter, shaped and strided like it.
  const torch::Tensor& view(std::size_t entry) const { return views_[entry]; }
  // A tensor of that shape and those strides, with memory of its own; whether `gradient` is one, on
  // the CPU and of the bucket's type.
  torch::Tensor make_like(std::size_t entry) const;
  bool is_like(std::size_t entry, const torch::Tensor& gradient) const;

  bool adopts() const { return adopts_; }
  void adopt(torch::Tensor gradient);  // is_like(0, gradient); where the last partial comes to lie
  // Whether it keeps the tensor of that partial instead of having memory for it.
  bool keeps(int node) const { return adopts_ && node + 1 < static_cast<int>(partials_.size()); }
  void keep(int node, torch::Tensor partial);  // keeps(node); is_like(0, partial)
  void release();                              // what it adopted and keeps, if anything

  // Of a bucket that adopts: rank r is to get counts[r] elements of the sum, this one in `own`;
  // what was adopted is released then.
  void scatter(std::vector<std::size_t> counts, torch::Tensor own);
  bool scatters() const { return own_.defined(); }
  std::span<const std::size_t> counts() const { return counts_; }
  std::byte* own_values() const { return static_cast<std::byte*>(own_.data_ptr()); }

  // One array for each node: its values in the bucket's dtype for a single shard, otherwise in the
  // accumulator type. The last is values() where the types are the same.
  std::span<std::byte* const> partials() const { return partials_; }
  std::byte* partial(int node, std::size_t entry) const;

 private:
  BucketLayout layout_;
  bool adopts_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;  // of each entry
  std::shared_ptr<collective::Buffer> memory_;
  std::byte* values_ = nullptr;
  std::vector<torch::Tensor> views_;
  std::vector<collective::Buffer> more_;
  std::vector<torch::Tensor> kept_;  // by node
  std::vector<std::byte*> partials_;
  std::vector<std::size_t> element_bytes_;  // of each of partials_
  std::vector<std::size_t> counts_;         // by rank, where it scatters
  torch::Tensor own_;
};

}  // namespace cohort::parallel
