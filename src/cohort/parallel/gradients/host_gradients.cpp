#include "cohort/parallel/gradients/host_gradients.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct HostGradients::Summing {
  Summing(collective::Group& group, const std::vector<torch::Tensor>& parameters,
          CollectorOptions options, std::unique_ptr<BucketExchange> given)
      : order(parameters.size(), !given->returns_sums()),
        buckets(group, parameters, given->plan(), options.first_bucket_bytes, options.bucket_bytes,
                std::move(options.memory), std::move(options.shares)),
        local(given->plan(), parameters.size()),
        exchange(std::move(given)) {
    buckets.lay_out(order.order());
  }

  GradientOrder order;
  GradientBuckets buckets;
  LocalSum local;
  std::optional<GradientMemory::Use> memory_use;  // in a shard
  std::vector<std::size_t> missing_of_bucket;     // parameters that the last shard still owes
  std::vector<BucketEvent> events;                // by bucket, of the step under way
  std::unique_ptr<BucketExchange> exchange;       // goes before the buckets that it may still use
  GradientHooks hooks;
};

HostGradients::HostGradients(collective::Group& group, const NamedTensors& parameters,
                             CollectorOptions options, std::unique_ptr<BucketExchange> exchange,
                             collective::ShardRange own)
    : GradientCollector(group.rank(), parameters, options, own) {
  fired_.resize(parameters_.size());
  taken_.resize(parameters_.size());
  if (!exchange) return;
  summing_ = std::make_unique<Summing>(group, parameters_, std::move(options), std::move(exchange));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    summing_->hooks.add(parameters_[i], [this, i] { on_gradient(i); });
}

HostGradients::~HostGradients() = default;

std::vector<BucketLayout> HostGradients::layouts() const {
  return summing_ ? summing_->buckets.layouts() : std::vector<BucketLayout>();
}

bool HostGradients::set_no_sync(bool on) {
  std::lock_guard lock(mutex_);
  return std::exchange(no_sync_, on);
}

// What the step before left in a bucket goes on in memory of its own, to which autograd adds.
void HostGradients::take_gradients_from_buckets() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size() && summing_; ++i) {
    torch::Tensor& gradient = parameters_[i].mutable_grad();
    const auto [bucket, entry] = summing_->buckets.location(i);
    const torch::Tensor& view = summing_->buckets[bucket].view(entry);
    if (gradient.defined() && view.defined() && gradient.is_alias_of(view))
      gradient = gradient.clone();
  }
}

// Without an old gradient to add to, autograd keeps the new one instead of copying it.
void HostGradients::drop_gradients() {
  if (accumulates_)
    take_gradients_from_buckets();
  else
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  // The buckets keep what earlier shards of the step have left.
  if (!summing_ || turns_.done() > 0) return;
  summing_->buckets.release();
  if (summing_->order.take_changed()) summing_->buckets.lay_out(summing_->order.order());
}

void HostGradients::begin_last_shard() {
  Summing& sum = *summing_;
  sum.missing_of_bucket.clear();
  sum.events.clear();
  for (const auto& bucket : sum.buckets.all()) {
    sum.missing_of_bucket.push_back(bucket->layout().entries.size());
    sum.events.push_back({static_cast<int>(sum.events.size()), bucket->bytes(), {}, {}, {}});
  }
  sum.exchange->begin_step(sum.buckets.all(), sum.events);
}

void HostGradients::begin_shard(int shard) {
  turns_.check_begin(shard);
  drop_gradients();
  std::fill(fired_.begin(), fired_.end(), 0);
  std::fill(taken_.begin(), taken_.end(), 0);
  if (summing_) {
    if (turns_.is_last()) begin_last_shard();
    // The gradient of the last shard is the one that its bucket adopts. One that is added to a sum
    // at once may have the same memory before it: that is one block less.
    using Reader = GradientMemory::Reader;
    const auto& steps = summing_->exchange->plan().steps();
    const bool is_added = steps[static_cast<std::size_t>(turns_.done())].inputs.size() > 1;
    summing_->buckets.use_memory(summing_->memory_use, turns_.is_last() || is_added
                                                           ? Reader::other_ranks
                                                           : Reader::this_rank);
  }
  turns_.begin();
}

void HostGradients::on_gradient(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  if (!turns_.in_shard() || no_sync_ || problem_) return;
  if (fired_[parameter]) {
    problem_ = second_gradient(parameter);
    return;
  }
  fired_[parameter] = 1;
  if (turns_.is_last()) summing_->order.note(parameter);
  // A device's gradient may not be computed yet; end_shard() comes after backward has waited for
  // it.
  if (parameters_[parameter].device().is_cpu()) take_gradient(parameter);
}

void HostGradients::take_gradient(std::size_t parameter) {
  Summing& sum = *summing_;
  torch::Tensor& slot = parameters_[parameter].mutable_grad();
  torch::Tensor gradient = slot;
  const auto [number, entry] = sum.buckets.location(parameter);
  Bucket& bucket = sum.buckets[number];
  if (gradient.defined()) {
    if (gradient.layout() != torch::kStrided) {
      problem_ = sparse_gradient(parameter);
      return;
    }
    if (!bucket.is_like(entry, gradient)) {
      const torch::NoGradGuard no_grad;
      gradient = bucket.make_like(entry).copy_(gradient);
    }
  }
  if (turns_.is_last() && bucket.adopts()) {
    if (!gradient.defined()) gradient = bucket.make_like(entry).zero_();
    bucket.adopt(gradient);
  }
  sum.local.add(turns_.done(), static_cast<int>(parameter), std::move(gradient), bucket, entry);
  taken_[parameter] = 1;
  slot.reset();
  if (!turns_.is_last()) return;
  if (parameters_[parameter].device().is_cpu() && !bucket.scatters()) slot = bucket.view(entry);
  if (--sum.missing_of_bucket[number] == 0) {
    sum.events[number].ready = Clock::now();
    sum.exchange->add(number);
  }
}

void HostGradients::end_shard() {
  turns_.check_end();
  std::lock_guard lock(mutex_);
  if (summing_ && !problem_) {
    const std::vector<std::size_t> none = without_gradient();
    const bool had_samples = none.size() < parameters_.size();
    if (had_samples && !none.empty() && !allow_unused_) problem_ = missing(none, turns_.shard());
    for (const int parameter : summing_->order.order())
      if (!problem_ && !taken_[static_cast<std::size_t>(parameter)])
        take_gradient(static_cast<std::size_t>(parameter));
  }
  if (summing_) summing_->memory_use.reset();
  turns_.end();
}

bool HostGradients::discard_shard() {
  const std::lock_guard lock(mutex_);
  if (!turns_.in_shard()) {
    if (summing_) return false;
    turns_.begin_step_again();  // gradients are where they were made
    return true;
  }
  if (std::any_of(taken_.begin(), taken_.end(), [](char taken) { return taken != 0; }))
    return false;
  if (summing_) summing_->memory_use.reset();
  turns_.discard();
  return true;
}

void HostGradients::finish(Deadline deadline) {
  turns_.finish_step();
  if (!summing_) return finish_alone();
  if (problem_) fail(*problem_);
  Summing& sum = *summing_;
  const bool returns_sums = sum.exchange->returns_sums();
  if (turns_.own().count == 0 && returns_sums) add_without_shards();
  const Clock::time_point from = Clock::now();
  sum.exchange->finish(deadline);
  waited_ += Clock::now() - from;
  for (std::size_t i = 0; i < parameters_.size() && returns_sums; ++i) {
    if (parameters_[i].device().is_cpu()) continue;
    const auto [bucket, entry] = sum.buckets.location(i);
    parameters_[i].mutable_grad() = sum.buckets[bucket].view(entry).to(parameters_[i].device());
  }
  if (recording_) recorded_.insert(recorded_.end(), sum.events.begin(), sum.events.end());
  if (!sum.order.is_settled()) sum.exchange->agree_on_order(sum.order, deadline);
}

void HostGradients::add_without_shards() {
  Summing& sum = *summing_;
  drop_gradients();
  begin_last_shard();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto [bucket, entry] = sum.buckets.location(i);
    if (parameters_[i].device().is_cpu())
      parameters_[i].mutable_grad() = sum.buckets[bucket].view(entry);
  }
  for (BucketEvent& event : sum.events) event.ready = Clock::now();
  for (std::size_t i = 0; i < sum.events.size(); ++i) sum.exchange->add(i);
}

void HostGradients::finish_alone() {
  const std::vector<std::size_t> none = without_gradient();
  if (none.size() < parameters_.size() && !none.empty() && !allow_unused_) fail(missing(none, 0));
  for (const std::size_t i : none)
    parameters_[i].mutable_grad() = torch::zeros_like(parameters_[i]);
}

std::vector<std::size_t> HostGradients::without_gradient() const {
  std::vector<std::size_t> none;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!taken_[i] && !parameters_[i].grad().defined()) none.push_back(i);
  return none;
}

void HostGradients::fail(const Problem& problem) {
  if (summing_) summing_->exchange->abort(problem.reason);
  raise(problem);
}

}  // namespace cohort::parallel
