#include "cohort/parallel/gradients/gradient_collector.h"

#include <algorithm>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

namespace {

using Clock = std::chrono::steady_clock;

// Drops what needs no gradient and what comes twice: a parameter that two modules share has one
// gradient.
NamedTensors select(const NamedTensors& given) {
  NamedTensors selected;
  std::unordered_set<const void*> seen;
  for (const auto& [name, parameter] : given) {
    if (!parameter.defined() || !parameter.requires_grad()) continue;
    if (!parameter.is_leaf())
      throw InvalidInput(fmt::format("{} is computed from other tensors", name),
                         {.advice = "Give parameters: leaf tensors that require gradients."});
    if (!parameter.is_floating_point())
      throw InvalidInput(fmt::format("{} is of type {}, whose gradients cannot be summed", name,
                                     torch::toString(parameter.scalar_type())));
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) selected.emplace_back(name, parameter);
  }
  return selected;
}

}  // namespace

struct GradientCollector::Summing {
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

GradientCollector::GradientCollector(collective::Group& group, const NamedTensors& parameters,
                                     CollectorOptions options,
                                     std::unique_ptr<BucketExchange> exchange,
                                     collective::ShardRange own)
    : allow_unused_(options.allow_unused),
      accumulates_(options.accumulates),
      turns_(group.rank(), own) {
  for (auto& [name, parameter] : select(parameters)) {
    names_.push_back(name);
    parameters_.push_back(parameter);
  }
  fired_.resize(parameters_.size());
  taken_.resize(parameters_.size());
  if (!exchange) return;
  summing_ = std::make_unique<Summing>(group, parameters_, std::move(options), std::move(exchange));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    summing_->hooks.add(parameters_[i], [this, i] { on_gradient(i); });
}

GradientCollector::~GradientCollector() = default;

std::vector<BucketLayout> GradientCollector::layouts() const {
  return summing_ ? summing_->buckets.layouts() : std::vector<BucketLayout>();
}

bool GradientCollector::set_no_sync(bool on) {
  std::lock_guard lock(mutex_);
  return std::exchange(no_sync_, on);
}

// What the step before left in a bucket goes on in memory of its own, to which autograd adds.
void GradientCollector::take_gradients_from_buckets() {
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
void GradientCollector::drop_gradients() {
  if (accumulates_)
    take_gradients_from_buckets();
  else
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  // The buckets keep what earlier shards of the step have left.
  if (!summing_ || turns_.done() > 0) return;
  summing_->buckets.release();
  if (summing_->order.take_changed()) summing_->buckets.lay_out(summing_->order.order());
}

void GradientCollector::begin_last_shard() {
  Summing& sum = *summing_;
  sum.missing_of_bucket.clear();
  sum.events.clear();
  for (const auto& bucket : sum.buckets.all()) {
    sum.missing_of_bucket.push_back(bucket->layout().entries.size());
    sum.events.push_back({static_cast<int>(sum.events.size()), bucket->bytes(), {}, {}, {}});
  }
  sum.exchange->begin_step(sum.buckets.all(), sum.events);
}

void GradientCollector::begin_shard(int shard) {
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

void GradientCollector::on_gradient(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  if (!turns_.in_shard() || no_sync_ || problem_) return;
  if (fired_[parameter]) {
    problem_ = Problem{
        fmt::format("{} got a second gradient in shard {}", names_[parameter], turns_.shard()),
        "Run all backwards of a shard but the last under GradientSync::NoSync."};
    return;
  }
  fired_[parameter] = 1;
  if (turns_.is_last()) summing_->order.note(parameter);
  // A device's gradient may not be computed yet; end_shard() comes after backward has waited for
  // it.
  if (parameters_[parameter].device().is_cpu()) take_gradient(parameter);
}

bool GradientCollector::accepts(std::size_t parameter, const torch::Tensor& gradient) {
  if (gradient.layout() == torch::kStrided) return true;
  problem_ = Problem{fmt::format("the gradient of {} is sparse", names_[parameter]),
                     "Make it dense (for an embedding: sparse = false)."};
  return false;
}

void GradientCollector::take_gradient(std::size_t parameter) {
  Summing& sum = *summing_;
  torch::Tensor& slot = parameters_[parameter].mutable_grad();
  torch::Tensor gradient = slot;
  const auto [number, entry] = sum.buckets.location(parameter);
  Bucket& bucket = sum.buckets[number];
  if (gradient.defined()) {
    if (!accepts(parameter, gradient)) return;
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

void GradientCollector::end_shard() {
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

bool GradientCollector::discard_shard() {
  const std::lock_guard lock(mutex_);
  if (!turns_.in_shard()) return false;
  if (std::any_of(taken_.begin(), taken_.end(), [](char taken) { return taken != 0; }))
    return false;
  if (summing_) summing_->memory_use.reset();
  turns_.discard();
  return true;
}

void GradientCollector::finish(Deadline deadline) {
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

void GradientCollector::add_without_shards() {
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

void GradientCollector::finish_alone() {
  const std::vector<std::size_t> none = without_gradient();
  if (none.size() < parameters_.size() && !none.empty() && !allow_unused_) fail(missing(none, 0));
  for (const std::size_t i : none)
    parameters_[i].mutable_grad() = torch::zeros_like(parameters_[i]);
}

std::vector<std::size_t> GradientCollector::without_gradient() const {
  std::vector<std::size_t> none;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!taken_[i] && !parameters_[i].grad().defined()) none.push_back(i);
  return none;
}

GradientCollector::Problem GradientCollector::missing(const std::vector<std::size_t>& parameters,
                                                      int shard) const {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(parameters.size(), kMost); ++i)
    names.push_back(names_[parameters[i]]);
  std::string text = join(names, ", ");
  if (parameters.size() > kMost) text += fmt::format(" and {} more", parameters.size() - kMost);
  return {fmt::format("no gradient for {} in shard {}", text, shard),
          "Use every parameter in the loss, or allow unused ones (allow_unused)."};
}

void GradientCollector::fail(const Problem& problem) {
  if (summing_) summing_->exchange->abort(problem.reason);
  throw InvalidInput(problem.reason, {.during = "GradientSync::finish", .advice = problem.advice});
}

}  // namespace cohort::parallel
