#include "cohort/parallel/gradients/gradient_state.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/parallel/tensors/element_types.h"

namespace cohort::parallel {

namespace {

using Clock = std::chrono::steady_clock;

// From this size on a gradient is summed where autograd makes it instead of being copied.
constexpr std::size_t kLarge = 1 << 20;

int count_of(const GradientSyncOptions& options, const collective::Group& group) {
  if (options.shards > 0) return options.shards;
  return options.sink ? options.place.size : group.size();
}

collective::ShardRange own_shards_of(const GradientSyncOptions& options,
                                     const collective::Group& group, int shards) {
  if (options.sink) return collective::shards_of(options.place.rank, options.place.size, shards);
  return collective::runs_of(group.size(), shards,
                             options.runs)[static_cast<std::size_t>(group.rank())];
}

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

GradientSync::State::State(collective::Group& group, NamedTensors parameters,
                           GradientSyncOptions options)
    : group_(group),
      options_(std::move(options)),
      shards_(count_of(options_, group)),
      own_(own_shards_of(options_, group, shards_)),
      alone_(group.size() == 1 && shards_ == 1 && !options_.reducer && !options_.sink),
      reduction_(group, options_, shards_, own_),
      local_(reduction_.plan(), parameters.size()) {
  for (auto& [name, parameter] : select(parameters)) {
    names_.push_back(name);
    parameters_.push_back(parameter);
  }
  fired_.resize(parameters_.size());
  taken_.resize(parameters_.size());
  order_agreed_ = options_.sink != nullptr;
  if (alone_) return;
  order_.resize(parameters_.size());
  std::iota(order_.rbegin(), order_.rend(), 0);  // backward goes from the end
  make_buckets();
  for (const torch::Tensor& parameter : parameters_)
    if (is_large(parameter)) large_.push_back(parameter.nbytes());
  if (!large_.empty())
    memory_ = options_.memory ? options_.memory : std::make_shared<GradientMemory>(group_);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.add(parameters_[i], [this, i] { on_gradient(i); });
}

GradientSync::State::~State() {
  const auto under_way = [](const collective::Work& work) { return !work.poll(); };
  if (std::any_of(works_.begin(), works_.end(), under_way))
    group_.abort("its gradients were given up in the middle of a step");
  for (collective::Work& work : works_) {
    try {
      work.wait();   // the bucket's memory is about to go; the abort ends the call
    } catch (...) {  // finish() has reported it, or nobody asked
    }
  }
}

bool GradientSync::State::is_large(const torch::Tensor& parameter) const {
  return parameter.device().is_cpu() && parameter.nbytes() >= kLarge &&
         accumulator_of(parameter.scalar_type()) == parameter.scalar_type() &&
         !reduction_.plan().nodes().empty();
}

void GradientSync::State::make_buckets() {
  std::vector<BucketLayout> layouts = lay_out_buckets(
      parameters_, order_, {options_.first_bucket_bytes, options_.bucket_bytes, kLarge});
  buckets_.clear();
  places_.assign(parameters_.size(), {});
  for (BucketLayout& layout : layouts) {
    for (std::size_t entry = 0; entry < layout.entries.size(); ++entry)
      places_[static_cast<std::size_t>(layout.entries[entry].parameter)] = {buckets_.size(), entry};
    const bool adopts =
        layout.entries.size() == 1 &&
        is_large(parameters_[static_cast<std::size_t>(layout.entries[0].parameter)]);
    buckets_.push_back(std::make_unique<Bucket>(group_, std::move(layout), parameters_,
                                                reduction_.plan().nodes(), adopts));
  }
}

std::vector<BucketLayout> GradientSync::State::layouts() const {
  std::vector<BucketLayout> layouts;
  for (const auto& bucket : buckets_) layouts.push_back(bucket->layout());
  return layouts;
}

bool GradientSync::State::set_no_sync(bool on) {
  std::lock_guard lock(mutex_);
  return std::exchange(no_sync_, on);
}

// Without an old gradient to add to, autograd keeps the new one instead of copying it.
void GradientSync::State::let_gradients_go() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  if (shards_done_ > 0) return;  // the buckets keep what earlier shards of the step have left
  for (const auto& bucket : buckets_) bucket->let_go();
  if (std::exchange(order_changed_, false)) make_buckets();
}

void GradientSync::State::expect_gradients() {
  next_bucket_ = 0;
  missing_of_bucket_.clear();
  step_events_.clear();
  for (const auto& bucket : buckets_) {
    missing_of_bucket_.push_back(bucket->layout().entries.size());
    step_events_.push_back({static_cast<int>(step_events_.size()), bucket->bytes(), {}, {}, {}});
  }
}

void GradientSync::State::begin_shard(int shard) {
  if (in_shard_ || shard != own_.first + shards_done_ || shards_done_ == own_.count)
    throw InvalidInput(
        fmt::format(
            "begin_shard({}) out of turn: rank {} owns {} shards from {} on, and has done {}",
            shard, group_.rank(), own_.count, own_.first, shards_done_),
        {.advice = "Call begin_shard and end_shard for each own shard, ascending, then finish."});
  let_gradients_go();
  std::fill(fired_.begin(), fired_.end(), 0);
  std::fill(taken_.begin(), taken_.end(), 0);
  if (is_last_shard()) expect_gradients();
  // The gradient of the last shard is the one that its bucket adopts. One that is added to a sum at
  // once may have the same memory before it: that is one block less.
  using Reader = GradientMemory::Reader;
  const bool is_added =
      reduction_.plan().steps()[static_cast<std::size_t>(shards_done_)].inputs.size() > 1;
  if (memory_)
    memory_use_.emplace(
        *memory_, is_last_shard() || is_added ? Reader::other_ranks : Reader::this_rank, large_);
  in_shard_ = true;
}

void GradientSync::State::on_gradient(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  if (!in_shard_ || no_sync_ || !problem_.empty()) return;
  if (fired_[parameter]) {
    problem_ = fmt::format("{} got a second gradient in shard {}", names_[parameter],
                           own_.first + shards_done_);
    advice_ = "Run all backwards of a shard but the last under GradientSync::NoSync.";
    return;
  }
  fired_[parameter] = 1;
  if (!order_agreed_ && is_last_shard()) ready_order_.push_back(static_cast<int>(parameter));
  // A device's gradient may not be computed yet; end_shard() comes after backward has waited for
  // it.
  if (parameters_[parameter].device().is_cpu()) take_gradient(parameter);
}

bool GradientSync::State::accepts(std::size_t parameter, const torch::Tensor& gradient) {
  if (gradient.layout() == torch::kStrided) return true;
  problem_ = fmt::format("the gradient of {} is sparse", names_[parameter]);
  advice_ = "Make it dense (for an embedding: sparse = false).";
  return false;
}

void GradientSync::State::take_gradient(std::size_t parameter) {
  torch::Tensor& slot = parameters_[parameter].mutable_grad();
  torch::Tensor gradient = slot;
  const Place place = places_[parameter];
  Bucket& bucket = *buckets_[place.bucket];
  if (gradient.defined()) {
    if (!accepts(parameter, gradient)) return;
    if (!bucket.is_like(place.entry, gradient)) {
      const torch::NoGradGuard no_grad;
      gradient = bucket.make_like(place.entry).copy_(gradient);
    }
  }
  if (is_last_shard() && bucket.adopts()) {
    if (!gradient.defined()) gradient = bucket.make_like(place.entry).zero_();
    bucket.adopt(gradient);
  }
  local_.add(shards_done_, static_cast<int>(parameter), std::move(gradient), bucket, place.entry);
  taken_[parameter] = 1;
  slot.reset();
  if (!is_last_shard()) return;
  if (parameters_[parameter].device().is_cpu()) slot = bucket.view(place.entry);
  if (--missing_of_bucket_[place.bucket] == 0) {
    step_events_[place.bucket].ready = Clock::now();
    if (options_.sink)
      hand_over(place.bucket);
    else
      launch_full_buckets();
  }
}

std::string GradientSync::State::names_of(const std::vector<std::size_t>& parameters) const {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(parameters.size(), kMost); ++i)
    names.push_back(names_[parameters[i]]);
  std::string text = join(names, ", ");
  if (parameters.size() > kMost) text += fmt::format(" and {} more", parameters.size() - kMost);
  return text;
}

void GradientSync::State::end_shard() {
  if (!in_shard_)
    throw InvalidInput("end_shard() without begin_shard()",
                       {.advice = "Call begin_shard and end_shard for each own shard."});
  std::lock_guard lock(mutex_);
  if (!alone_ && problem_.empty()) {
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (!taken_[i] && !parameters_[i].grad().defined()) missing.push_back(i);
    const bool had_samples = missing.size() < parameters_.size();
    if (had_samples && !missing.empty() && !options_.allow_unused) {
      problem_ = fmt::format("no gradient for {} in shard {}", names_of(missing),
                             own_.first + shards_done_);
      advice_ = "Use every parameter in the loss, or allow unused ones (allow_unused).";
    }
    for (const int parameter : order_)
      if (problem_.empty() && !taken_[static_cast<std::size_t>(parameter)])
        take_gradient(static_cast<std::size_t>(parameter));
  }
  memory_use_.reset();
  in_shard_ = false;
  ++shards_done_;
}

bool GradientSync::State::discard_shard() {
  const std::lock_guard lock(mutex_);
  COHORT_CHECK(in_shard_, "discard_shard() without begin_shard()");
  if (std::any_of(taken_.begin(), taken_.end(), [](char taken) { return taken != 0; }))
    return false;
  memory_use_.reset();
  in_shard_ = false;
  return true;
}

}  // namespace cohort::parallel
