#include "cohort/parallel/gradients/bucket_all_reduce.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

// Gradients that are given up once they are summed: so many are waited for at most.
constexpr std::size_t kMostScattered = 3;

int shards_of_job(const GradientSyncOptions& options, const collective::Group& group) {
  return options.shards > 0 ? options.shards : group.size();
}

}  // namespace

BucketAllReduce::BucketAllReduce(collective::Group& group, const GradientSyncOptions& options)
    : group_(group),
      on_bucket_(options.on_bucket),
      order_source_(collective::first_owner(options.runs)),
      own_(collective::runs_of(group.size(), shards_of_job(options, group),
                               options.runs)[static_cast<std::size_t>(group.rank())]),
      reduction_(group, options, shards_of_job(options, group), own_) {}

BucketAllReduce::~BucketAllReduce() {
  const auto under_way = [](const collective::Work& work) { return !work.poll(); };
  if (std::any_of(works_.begin(), works_.end(), under_way))
    group_.abort("its gradients were given up in the middle of a step");
  for (collective::Work& work : works_) {
    try {
      work.wait();   // the bucket's memory is about to go; the abort ends the call
    } catch (...) {  // finish() has reported it, or was not called
    }
  }
}

void BucketAllReduce::begin_step(std::span<const std::unique_ptr<Bucket>> buckets,
                                 std::span<BucketEvent> events) {
  buckets_ = buckets;
  events_ = events;
  complete_.assign(buckets.size(), 0);
  next_ = 0;
}

void BucketAllReduce::add(std::size_t bucket) {
  complete_[bucket] = 1;
  for (; next_ < complete_.size() && complete_[next_]; ++next_) launch(next_);
}

void BucketAllReduce::launch(std::size_t index) {
  if (on_bucket_) on_bucket_(index);
  if (buckets_[index]->scatters() && works_.size() >= kMostScattered)
    works_[works_.size() - kMostScattered].wait();
  BucketEvent& event = events_[index];
  Bucket& bucket = *buckets_[index];
  const auto reduce = [this, &event, &bucket](collective::Group&) {
    event.begun = std::chrono::steady_clock::now();
    reduction_.run(bucket);
    event.ended = std::chrono::steady_clock::now();
  };
  if (group_.size() == 1)
    reduce(group_);
  else
    works_.push_back(group_.run_async(reduce));
}

void BucketAllReduce::finish(Deadline deadline) {
  for (std::size_t i = 0; i < works_.size(); ++i) {
    try {
      works_[i].wait(deadline);
    } catch (const std::exception& error) {
      // No rank may wait for this one; and what is under way ends by it.
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
}

// After the first step in which the rank whose order counts had samples.
void BucketAllReduce::agree_on_order(GradientOrder& order, Deadline deadline) {
  std::vector<std::int32_t> seen = order.take_seen();
  if (seen.empty() || group_.rank() != order_source_) {
    seen.assign(order.order().begin(), order.order().end());
    seen[0] = -1;  // it saw none
  }
  group_.broadcast(std::span(seen), order_source_, {deadline});
  if (seen[0] >= 0) order.settle(seen);
}

void BucketAllReduce::abort(const std::string& reason) noexcept {
  group_.abort(fmt::format("rank {}: {}", group_.rank(), reason));
}

}  // namespace cohort::parallel
