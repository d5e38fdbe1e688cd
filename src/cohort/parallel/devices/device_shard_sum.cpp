#include "cohort/parallel/devices/device_shard_sum.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/devices/tree_sum.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

using collective::ShardPlan;
using collective::ShardRange;
using collective::Subtree;

// Of one rank: the elements of the slices that the others get are aligned for wide accesses.
constexpr std::int64_t kSliceElements = 64;

struct DeviceSlice {
  std::int64_t from = 0;
  std::int64_t count = 0;
};

std::vector<DeviceSlice> slices_of(std::int64_t elements, std::size_t ranks) {
  const auto n = static_cast<std::int64_t>(ranks);
  const std::int64_t each =
      (elements + n * kSliceElements - 1) / (n * kSliceElements) * kSliceElements;
  std::vector<DeviceSlice> slices;
  for (std::int64_t rank = 0; rank < n; ++rank) {
    const std::int64_t from = std::min(elements, rank * each);
    slices.push_back({from, std::min(each, elements - from)});
  }
  return slices;
}

torch::ScalarType type_of(const Subtree& node, torch::ScalarType type) {
  return node.count > 1 ? accumulator_of(type) : type;
}

std::size_t bytes_in(const ShardPlan& plan, const DeviceSlice& slice, torch::ScalarType type) {
  std::size_t bytes = 0;
  for (const Subtree& node : plan.nodes())
    bytes += static_cast<std::size_t>(slice.count) * torch::elementSize(type_of(node, type));
  return bytes;
}

// With any order a rank adds up its own shards as if there were no others.
ShardPlan plan_of(int shards, const ShardRange& run, bool any_order) {
  if (any_order) return {std::max(run.count, 1), ShardRange{0, run.count}};
  return {shards, run};
}

}  // namespace

DeviceShardSum::DeviceShardSum(collective::DeviceGroup* device, int rank, int ranks, int shards,
                               std::vector<ShardRange> runs, bool any_order)
    : device_(device),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      any_order_(any_order && ranks > 1),
      own_(1, {0, 0}) {
  COHORT_CHECK(ranks == 1 || device != nullptr, "{} ranks without a device group", ranks);
  for (const ShardRange& run : collective::runs_of(ranks, shards, std::move(runs)))
    plans_.push_back(plan_of(shards, run, any_order_));
  own_ = plans_[rank_];
}

bool DeviceShardSum::has_one_shard_each() const {
  return std::all_of(plans_.begin(), plans_.end(),
                     [](const ShardPlan& plan) { return plan.steps().size() == 1; });
}

bool DeviceShardSum::is_direct(torch::ScalarType type) const {
  if (any_order_) return true;
  const auto has_one = [](const ShardPlan& plan) { return plan.nodes().size() == 1; };
  return ranks_ == 2 && accumulator_of(type) == type &&
         std::all_of(plans_.begin(), plans_.end(), has_one);
}

void DeviceShardSum::all_reduce(std::span<const torch::Tensor> partials,
                                const torch::Tensor& result, double scale) const {
  COHORT_CHECK(partials.size() == own_.nodes().size(), "{} partials for {} nodes", partials.size(),
               own_.nodes().size());
  const torch::NoGradGuard no_grad;
  if (ranks_ == 1 || !is_direct(result.scalar_type())) return exchange(partials, result, scale);
  const torch::Tensor values = result.detach();
  if (partials.empty())
    values.zero_();
  else if (partials[0].data_ptr() != values.data_ptr())
    values.copy_(partials[0]);
  device_->all_reduce(values.data_ptr(), values.data_ptr(),
                      static_cast<std::size_t>(values.numel()), data_type_of(values.scalar_type()),
                      collective::ReduceOp::sum, current_stream(values.device()));
  if (scale != 1) values.mul_(scale);
}

void DeviceShardSum::exchange(std::span<const torch::Tensor> partials, const torch::Tensor& result,
                              double scale) const {
  const torch::ScalarType type = result.scalar_type();
  const Subtree root{0, own_.shards()};
  if (ranks_ == 1) {
    std::vector<TreePart> parts;
    for (std::size_t i = 0; i < partials.size(); ++i)
      parts.push_back({own_.nodes()[i], partials[i]});
    return sum_in_tree(result, root, parts, scale);
  }
  const std::vector<DeviceSlice> slices = slices_of(result.numel(), ranks_);
  const DeviceSlice& mine = slices[rank_];
  const collective::DeviceStream stream = current_stream(result.device());
  const auto bytes_tensor = [&](std::size_t bytes) {
    return torch::empty({static_cast<std::int64_t>(bytes)},
                        torch::TensorOptions().dtype(torch::kByte).device(result.device()));
  };

  std::vector<std::size_t> send, receive;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    send.push_back(bytes_in(own_, slices[rank], type));
    receive.push_back(bytes_in(plans_[rank], mine, type));
  }
  torch::Tensor sending;  // the slices for rank 0, of each partial, then those for rank 1, ...
  if (partials.size() == 1) {
    sending = partials[0];  // they lie so already
  } else if (!partials.empty()) {
    std::vector<torch::Tensor> pieces;
    for (const DeviceSlice& slice : slices)
      for (const torch::Tensor& partial : partials)
        pieces.push_back(partial.narrow(0, slice.from, slice.count).view(torch::kByte));
    sending = torch::cat(pieces);
  }
  std::size_t incoming = 0;
  for (const std::size_t bytes : receive) incoming += bytes;
  const torch::Tensor receiving = bytes_tensor(incoming);
  device_->all_to_all_v(sending.defined() ? sending.data_ptr() : nullptr, send,
                        receiving.data_ptr(), receive, collective::DataType::u8, stream);

  std::vector<TreePart> parts;
  std::int64_t at = 0;
  for (const ShardPlan& plan : plans_)
    for (const Subtree& node : plan.nodes()) {
      const torch::ScalarType node_type = type_of(node, type);
      const auto bytes = mine.count * static_cast<std::int64_t>(torch::elementSize(node_type));
      torch::Tensor values = receiving.narrow(0, at, bytes);
      if (at % static_cast<std::int64_t>(torch::elementSize(node_type)) != 0)
        values = values.clone();  // a view must be aligned
      parts.push_back({node, values.view(node_type)});
      at += bytes;
    }
  const torch::Tensor sum = result.narrow(0, mine.from, mine.count);
  if (mine.count > 0) sum_in_tree(sum, root, parts, scale);
  std::vector<std::size_t> counts;
  for (const DeviceSlice& slice : slices)
    counts.push_back(static_cast<std::size_t>(slice.count) * torch::elementSize(type));
  device_->all_gather_v(sum.data_ptr(), result.data_ptr(), counts, collective::DataType::u8,
                        stream);
}

}  // namespace cohort::parallel
