#include "cohort/parallel/gradients/bucket_push.h"

#include <utility>
#include <vector>

namespace cohort::parallel {

BucketPush::BucketPush(BucketSink sink, const GradientPushOptions& options)
    : sink_(std::move(sink)),
      own_(collective::shards_of(options.rank, options.size, options.shards)),
      plan_(options.shards, own_) {}

void BucketPush::begin_step(std::span<const std::unique_ptr<Bucket>> buckets,
                            std::span<BucketEvent> events) {
  buckets_ = buckets;
  events_ = events;
}

void BucketPush::add(std::size_t bucket) {
  const auto partials = buckets_[bucket]->partials();
  events_[bucket].begun = std::chrono::steady_clock::now();
  sink_(bucket, std::vector<const std::byte*>(partials.begin(), partials.end()));
  events_[bucket].ended = std::chrono::steady_clock::now();
}

}  // namespace cohort::parallel
