#include "cohort/parallel/gradients/bucket_reduction.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cohort/collective/reduction/kernels.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

namespace {

using collective::DataType;
using collective::Kernels;

constexpr std::size_t kBlock = 1024;  // elements that are converted at a time

void narrow(void* to, const std::byte* from, bool from_f64, std::size_t n, const Kernels& half) {
  if (!from_f64) return half.store(to, from, n);
  const auto* wide = reinterpret_cast<const double*>(from);
  auto* out = static_cast<std::uint16_t*>(to);
  std::array<float, kBlock> block;
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t length = std::min(kBlock, n - i);
    std::copy_n(wide + i, length, block.begin());
    half.store(out + i, block.data(), length);
  }
}

void widen(std::byte* to, const void* from, bool to_f64, std::size_t n, const Kernels& half) {
  if (!to_f64) return half.load(to, from, n);
  auto* wide = reinterpret_cast<double*>(to);
  const auto* in = static_cast<const std::uint16_t*>(from);
  std::array<float, kBlock> block;
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t length = std::min(kBlock, n - i);
    half.load(block.data(), in + i, length);
    std::copy_n(block.begin(), length, wide + i);
  }
}

}  // namespace

BucketReduction::BucketReduction(collective::Group& group, const GradientSyncOptions& options,
                                 int shards, collective::ShardRange own)
    : group_(group),
      compression_(options.compression),
      reducer_(options.reducer),
      scale_(options.average ? 1.0 / shards : 1.0),
      shards_(group, shards, options.runs) {
  if (reducer_ || compression_ != Compression::none)
    own_.emplace(own.count, collective::ShardRange{0, own.count});
}

const collective::ShardPlan& BucketReduction::plan() const { return own_ ? *own_ : shards_.plan(); }

void BucketReduction::run(Bucket& bucket) {
  const std::size_t elements = bucket.layout().elements;
  const DataType dtype = data_type_of(bucket.layout().dtype);
  if (bucket.scatters()) {
    shards_.reduce_scatter(bucket.partials(), bucket.own_values(), bucket.counts(), dtype, scale_);
    bucket.release();
    return;
  }
  if (!own_) {
    shards_.all_reduce(bucket.partials(), bucket.values(), elements, dtype, scale_);
    return;
  }
  if (bucket.partials().empty())
    std::memset(bucket.values(), 0, bucket.bytes());
  else if (bucket.partials()[0] != bucket.values())
    kernels(dtype, collective::ReduceOp::sum)
        .store(bucket.values(), bucket.partials()[0], elements);
  if (reducer_) {
    torch::Tensor values = bucket.flat();
    reducer_(group_, values);
    if (scale_ != 1) values.mul_(scale_);
  } else if (dtype == DataType::f32 || dtype == DataType::f64) {
    run_compressed(bucket);
  } else {
    group_.all_reduce(bucket.values(), bucket.values(), elements, dtype, {.post_scale = scale_});
  }
}

void BucketReduction::run_compressed(Bucket& bucket) {
  const std::size_t elements = bucket.layout().elements;
  const bool is_f64 = bucket.layout().dtype == torch::kDouble;
  const DataType on_wire = compression_ == Compression::f16 ? DataType::f16 : DataType::bf16;
  const Kernels& half = kernels(on_wire, collective::ReduceOp::sum);
  if (wire_.bytes() < elements * 2) {
    wire_ = collective::Buffer();
    wire_ = group_.allocate(elements * 2);
  }
  narrow(wire_.data(), bucket.values(), is_f64, elements, half);
  group_.all_reduce(wire_.data(), wire_.data(), elements, on_wire, {.post_scale = scale_});
  widen(bucket.values(), wire_.data(), is_f64, elements, half);
}

}  // namespace cohort::parallel
