// The end of a step: buckets go out, their sums come back.
#include <algorithm>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/parallel/gradients/gradient_state.h"

namespace cohort::parallel {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void GradientSync::State::launch_full_buckets() {
  for (; next_bucket_ < buckets_.size() && missing_of_bucket_[next_bucket_] == 0; ++next_bucket_) {
    if (options_.on_bucket) options_.on_bucket(next_bucket_);
    BucketEvent& event = step_events_[next_bucket_];
    Bucket& bucket = *buckets_[next_bucket_];
    const auto reduce = [this, &event, &bucket](collective::Group&) {
      event.begun = Clock::now();
      reduction_.run(bucket);
      event.ended = Clock::now();
    };
    if (group_.size() == 1)
      reduce(group_);
    else
      works_.push_back(group_.run_async(reduce));
  }
}

void GradientSync::State::launch_without_shards() {
  let_gradients_go();
  expect_gradients();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].device().is_cpu())
      parameters_[i].mutable_grad() = buckets_[places_[i].bucket]->view(places_[i].entry);
  for (BucketEvent& event : step_events_) event.ready = Clock::now();
  std::fill(missing_of_bucket_.begin(), missing_of_bucket_.end(), 0);
  launch_full_buckets();
}

void GradientSync::State::hand_over(std::size_t bucket) {
  BucketEvent& event = step_events_[bucket];
  const auto partials = buckets_[bucket]->partials();
  event.begun = Clock::now();
  options_.sink(bucket, std::vector<const std::byte*>(partials.begin(), partials.end()));
  event.ended = Clock::now();
}

void GradientSync::State::fail(const std::string& reason, const std::string& advice) {
  group_.abort(fmt::format("rank {}: {}", group_.rank(), reason));
  throw InvalidInput(reason, {.during = "GradientSync::finish", .advice = advice});
}

void GradientSync::State::finish(Deadline deadline) {
  if (in_shard_ || shards_done_ != own_.count)
    throw InvalidInput(fmt::format("finish() after {} of {} own shards", shards_done_, own_.count),
                       {.advice = "Call begin_shard and end_shard for each own shard first."});
  shards_done_ = 0;
  if (alone_) return finish_alone();
  if (!problem_.empty()) fail(problem_, advice_);
  if (own_.count == 0) launch_without_shards();
  wait_for_buckets(deadline);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i];
    const Place place = places_[i];
    if (!parameter.device().is_cpu() && !options_.sink)
      parameter.mutable_grad() = buckets_[place.bucket]->view(place.entry).to(parameter.device());
  }
  if (recording_) events_.insert(events_.end(), step_events_.begin(), step_events_.end());
  if (!order_agreed_) agree_on_order(deadline);
}

void GradientSync::State::wait_for_buckets(Deadline deadline) {
  const Clock::time_point from = Clock::now();
  const auto abort = [&](const std::string& reason) {
    // Nobody may wait for this rank; and what is under way ends by it.
    group_.abort(fmt::format("rank {}: {}", group_.rank(), reason));
  };
  for (std::size_t i = 0; i < works_.size(); ++i) {
    try {
      works_[i].wait(deadline);
    } catch (const std::exception& error) {
      if (works_[i].poll()) {
        abort(error.what());
        throw;
      }
      const std::string reason = fmt::format(
          "the gradients of bucket {} of {} were not summed at the deadline", i, works_.size());
      abort(reason);
      throw TimeoutError(reason, {.during = "GradientSync::finish",
                                  .advice = "See whether every replica still trains."});
    }
  }
  works_.clear();
  waited_ += Clock::now() - from;
}

// After the first step in which the first rank with shards had samples: its order becomes
// everybody's.
void GradientSync::State::agree_on_order(Deadline deadline) {
  if (parameters_.empty()) {
    order_agreed_ = true;
    return;
  }
  std::vector<std::int32_t> order(order_.begin(), order_.end());
  const int leader = collective::first_owner(options_.runs);
  if (group_.rank() == leader) {
    if (ready_order_.empty()) order[0] = -1;
    // What had no gradient comes last, in the order so far.
    const auto place = [&](int parameter) {
      return std::find(ready_order_.begin(), ready_order_.end(), parameter) - ready_order_.begin();
    };
    if (!ready_order_.empty())
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return place(a) < place(b); });
  }
  ready_order_.clear();
  group_.broadcast(std::span(order), leader, {deadline});
  if (order[0] < 0) return;
  order_agreed_ = true;
  order_changed_ = !std::equal(order.begin(), order.end(), order_.begin(), order_.end());
  order_.assign(order.begin(), order.end());
}

void GradientSync::State::finish_alone() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].grad().defined()) missing.push_back(i);
  if (missing.size() < parameters_.size() && !missing.empty() && !options_.allow_unused)
    fail(fmt::format("no gradient for {} in shard 0", names_of(missing)),
         "Use every parameter in the loss, or allow unused ones (allow_unused).");
  for (const std::size_t i : missing)
    parameters_[i].mutable_grad() = torch::zeros_like(parameters_[i]);
}

}  // namespace cohort::parallel
