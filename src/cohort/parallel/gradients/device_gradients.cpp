#include "cohort/parallel/gradients/device_gradients.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/cuda/stream_scope.h"
#include "cohort/parallel/devices/tree_sum.h"
#include "cohort/parallel/element_types.h"
#include "cohort/parallel/gradients/bucket.h"

namespace cohort::parallel {

namespace {

constexpr std::int64_t kMostGap = 64;  // elements between two entries of a bucket

CollectorOptions common_options(const GradientSyncOptions& options) {
  return {.allow_unused = options.allow_unused, .accumulates = options.accumulates};
}

int shards_or_ranks(const GradientSyncOptions& options, const collective::Group& group) {
  return options.shards > 0 ? options.shards : group.size();
}

}  // namespace

struct DeviceGradients::Bucket {
  BucketLayout layout;
  std::vector<std::vector<std::int64_t>> sizes, strides;  // by entry
  torch::Tensor values;                                   // the sum
  std::vector<torch::Tensor> views;                       // of `values`, by entry
  // By node of the plan; the last is `values` where it has that type.
  std::vector<torch::Tensor> partials;
  std::vector<TreePart> stack, stack_before;  // sums that wait for more shards; before this shard
  std::size_t missing = 0;                    // gradients that the shard under way still owes
  bool taken = false;

  torch::Tensor make(torch::ScalarType type) const {
    return torch::empty({static_cast<std::int64_t>(layout.elements)},
                        torch::TensorOptions().dtype(type).device(values.device()));
  }
};

DeviceGradients::DeviceGradients(collective::Group& group, collective::DeviceGroup* device,
                                 const NamedTensors& parameters, const GradientSyncOptions& options)
    : GradientCollector(group.rank(), parameters, common_options(options),
                        collective::runs_of(group.size(), shards_or_ranks(options, group),
                                            options.runs)[static_cast<std::size_t>(group.rank())]),
      group_(group),
      device_(device),
      sum_(device, group.rank(), group.size(), shards_or_ranks(options, group), options.runs,
           options.any_order),
      scale_(options.average ? 1.0 / shards_or_ranks(options, group) : 1.0),
      on_bucket_(options.on_bucket) {
  fired_.resize(parameters_.size());
  bucket_of_.resize(parameters_.size());
  if (parameters_.empty()) return;
  const torch::Device where = parameters_.front().device();
  zeros_ = torch::zeros({kMostGap}, torch::TensorOptions().device(where));
  if (group.size() > 1)
    sending_ = where.is_cpu() ? thread_stream(where) : stream_from_pool(where, true);
  // Autograd comes to the last parameters first.
  std::vector<int> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  const BucketSizes sizes{options.first_bucket_bytes, options.bucket_bytes,
                          std::numeric_limits<std::size_t>::max()};
  for (BucketLayout& layout : lay_out_buckets(parameters_, order, sizes))
    add_bucket(std::move(layout));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.add(parameters_[i], [this, i] { on_gradient(i); });
}

// Where a step broke off, the memory must not go to others before the exchange is past it.
DeviceGradients::~DeviceGradients() {
  try {
    if (sending_) order_streams(*sending_, thread_stream(sending_->device()));
  } catch (const c10::Error&) {
    // The device has failed: whatever is asked of it next says so again.
  }
}

void DeviceGradients::add_bucket(BucketLayout layout) {
  auto bucket = std::make_unique<Bucket>();
  bucket->layout = std::move(layout);
  bucket->values = torch::zeros(
      {static_cast<std::int64_t>(bucket->layout.elements)},
      torch::TensorOptions().dtype(bucket->layout.dtype).device(parameters_.front().device()));
  for (const BucketEntry& entry : bucket->layout.entries) {
    const auto i = static_cast<std::size_t>(entry.parameter);
    bucket_of_[i] = buckets_.size();
    bucket->sizes.push_back(parameters_[i].sizes().vec());
    bucket->strides.push_back(gradient_strides(parameters_[i]));
    bucket->views.push_back(bucket->values.as_strided(bucket->sizes.back(), bucket->strides.back(),
                                                      static_cast<std::int64_t>(entry.offset)));
  }
  const auto& nodes = sum_.plan().nodes();
  for (const collective::Subtree& node : nodes) {
    const torch::ScalarType type =
        node.count > 1 ? accumulator_of(bucket->layout.dtype) : bucket->layout.dtype;
    const bool is_result = &node == &nodes.back() && type == bucket->layout.dtype;
    bucket->partials.push_back(is_result ? bucket->values : bucket->make(type));
  }
  buckets_.push_back(std::move(bucket));
}

std::vector<BucketLayout> DeviceGradients::layouts() const {
  std::vector<BucketLayout> layouts;
  for (const auto& bucket : buckets_) layouts.push_back(bucket->layout);
  return layouts;
}

bool DeviceGradients::set_no_sync(bool on) {
  const std::lock_guard lock(mutex_);
  return std::exchange(no_sync_, on);
}

bool DeviceGradients::can_be_captured() const {
  // Every rank, as NCCL wants a call to be captured on all or on none.
  return sum_.has_one_shard_each() && (device_ == nullptr || device_->can_be_captured());
}

// Without an old gradient to add to, autograd keeps the new one instead of copying it. What is to be
// added to goes on in memory of its own.
void DeviceGradients::drop_gradients() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].mutable_grad();
    if (!gradient.defined()) continue;
    if (!accumulates_)
      gradient.reset();
    else if (gradient.is_alias_of(buckets_[bucket_of_[i]]->values))
      gradient = gradient.clone();
  }
}

void DeviceGradients::begin_shard(int shard) {
  turns_.check_begin(shard);
  drop_gradients();
  std::fill(fired_.begin(), fired_.end(), 0);
  for (const auto& bucket : buckets_) {
    if (turns_.done() == 0) bucket->stack.clear();
    bucket->stack_before = bucket->stack;
    bucket->missing = bucket->layout.entries.size();
    bucket->taken = false;
  }
  next_ = 0;
  computed_ = recorded_ = false;
  if (!parameters_.empty()) computing_ = thread_stream(parameters_.front().device());
  turns_.begin();
}

void DeviceGradients::on_gradient(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (!turns_.in_shard() || no_sync_ || problem_) return;
  if (fired_[parameter]) {
    problem_ = second_gradient(parameter);
    return;
  }
  fired_[parameter] = 1;
  order_streams(thread_stream(computing_->device()), *computing_);
  Bucket& bucket = *buckets_[bucket_of_[parameter]];
  if (--bucket.missing > 0) return;
  const c10::StreamGuard on_computing(*computing_);
  take(bucket);
  if (turns_.is_last()) launch_complete();
}

// The gradient of an entry as one dimension, in the order in which it lies in the bucket.
torch::Tensor DeviceGradients::flat_gradient(const Bucket& bucket, std::size_t entry) {
  const BucketEntry& where = bucket.layout.entries[entry];
  const auto elements = static_cast<std::int64_t>(where.elements);
  const torch::Tensor& gradient =
      parameters_[static_cast<std::size_t>(where.parameter)].mutable_grad();
  const auto options = bucket.values.options();
  if (!gradient.defined()) return torch::zeros({elements}, options);
  if (gradient.layout() != torch::kStrided) {
    problem_ = sparse_gradient(static_cast<std::size_t>(where.parameter));
    return torch::zeros({elements}, options);
  }
  torch::Tensor same = gradient;
  if (gradient.strides() != bucket.strides[entry] || gradient.scalar_type() != bucket.layout.dtype)
    same =
        torch::empty_strided(bucket.sizes[entry], bucket.strides[entry], options).copy_(gradient);
  return same.as_strided({elements}, {1});
}

// The gradients of the shard under way become its part of the sum over this rank's shards.
void DeviceGradients::take(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  bucket.taken = true;
  (is_recording(*computing_) ? recorded_ : computed_) = true;
  std::vector<torch::Tensor> pieces;
  std::size_t at = 0;
  for (std::size_t entry = 0; entry < bucket.layout.entries.size(); ++entry) {
    const BucketEntry& where = bucket.layout.entries[entry];
    if (const auto gap = static_cast<std::int64_t>(where.offset - at); gap > 0)
      pieces.push_back(zeros_.narrow(0, 0, gap).to(bucket.layout.dtype));
    pieces.push_back(flat_gradient(bucket, entry));
    at = where.offset + where.elements;
  }
  if (const auto gap = static_cast<std::int64_t>(bucket.layout.elements - at); gap > 0)
    pieces.push_back(zeros_.narrow(0, 0, gap).to(bucket.layout.dtype));
  const auto& step = sum_.plan().steps()[static_cast<std::size_t>(turns_.done())];
  const bool stands_alone = step.inputs.size() == 1;
  torch::Tensor values = stands_alone && step.final >= 0
                             ? bucket.partials[static_cast<std::size_t>(step.final)]
                             : bucket.make(bucket.layout.dtype);
  torch::cat_out(values, pieces);
  for (const BucketEntry& where : bucket.layout.entries)
    parameters_[static_cast<std::size_t>(where.parameter)].mutable_grad().reset();
  if (!stands_alone) {
    std::vector<TreePart> parts;
    const std::size_t below = bucket.stack.size() - (step.inputs.size() - 1);
    for (std::size_t i = below; i < bucket.stack.size(); ++i) parts.push_back(bucket.stack[i]);
    parts.push_back({step.inputs.back().node, values});
    const torch::Tensor sum = step.final >= 0
                                  ? bucket.partials[static_cast<std::size_t>(step.final)]
                                  : bucket.make(accumulator_of(bucket.layout.dtype));
    sum_in_tree(sum, step.node, parts);
    bucket.stack.resize(below);
    values = sum;
  }
  if (step.final < 0) bucket.stack.push_back({step.node, values});
}

// In the buckets' order, those that are taken.
void DeviceGradients::launch_complete() {
  for (; next_ < buckets_.size() && buckets_[next_]->taken && !problem_; ++next_) {
    Bucket& bucket = *buckets_[next_];
    if (on_bucket_) on_bucket_(next_);
    if (!sending_) {
      sum_.all_reduce(bucket.partials, bucket.values, scale_);
      continue;
    }
    order_streams(*computing_, *sending_);
    const c10::StreamGuard on_sending(*sending_);
    sum_.all_reduce(bucket.partials, bucket.values, scale_);
  }
}

bool DeviceGradients::has_gradient(std::size_t parameter) const {
  return fired_[parameter] != 0 || parameters_[parameter].grad().defined();
}

void DeviceGradients::end_shard() {
  turns_.check_end();
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> none;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!has_gradient(i)) none.push_back(i);
  if (none.size() < parameters_.size() && !none.empty() && !allow_unused_ && !problem_)
    problem_ = missing(none, turns_.shard());
  if (!problem_) {
    for (const auto& bucket : buckets_)
      if (!bucket->taken) take(*bucket);
    if (turns_.is_last()) launch_complete();
  }
  turns_.end();
}

bool DeviceGradients::discard_shard() {
  const std::lock_guard lock(mutex_);
  if (computed_) return false;
  if (!turns_.in_shard()) {  // of a step that was only recorded
    if (recorded_) turns_.begin_step_again();
    return recorded_;
  }
  for (const auto& bucket : buckets_) bucket->stack = bucket->stack_before;
  turns_.discard();
  return true;
}

void DeviceGradients::finish(Deadline) {
  turns_.finish_step();
  if (problem_) {
    group_.abort(fmt::format("rank {}: {}", group_.rank(), problem_->reason));
    raise(*problem_);
  }
  if (parameters_.empty()) return;
  const c10::Stream here = thread_stream(parameters_.front().device());
  if (turns_.own().count == 0) {
    computing_ = here;
    next_ = 0;
    for (const auto& bucket : buckets_) bucket->taken = true;
    launch_complete();
  }
  if (sending_) order_streams(*sending_, here);
  for (const auto& bucket : buckets_)
    for (std::size_t entry = 0; entry < bucket->views.size(); ++entry)
      parameters_[static_cast<std::size_t>(bucket->layout.entries[entry].parameter)]
          .mutable_grad() = bucket->views[entry];
  if (device_ != nullptr) device_->check();
}

}  // namespace cohort::parallel
