#pragma once

#include "cohort/parallel/gradients/bucket_exchange.h"
#include "cohort/parallel/gradients/gradient_options.h"

namespace cohort::parallel {

// Hands each bucket to parameter servers as soon as it is complete, on the thread that completed
// it. There is nothing to wait for: the servers' answer does not come through the buckets, and the
// order of gradients is this worker's own business.
class BucketPush final : public BucketExchange {
 public:
  BucketPush(BucketSink sink, const GradientPushOptions& options);

  collective::ShardRange own_shards() const override { return own_; }
  const collective::ShardPlan& plan() const override { return plan_; }
  void begin_step(std::span<const std::unique_ptr<Bucket>> buckets,
                  std::span<BucketEvent> events) override;
  void add(std::size_t bucket) override;
  void finish(Deadline) override {}
  bool returns_sums() const override { return false; }
  void agree_on_order(GradientOrder&, Deadline) override {}
  void abort(const std::string&) noexcept override {}

 private:
  BucketSink sink_;
  collective::ShardRange own_;
  collective::ShardPlan plan_;
  std::span<const std::unique_ptr<Bucket>> buckets_;
  std::span<BucketEvent> events_;
};

}  // namespace cohort::parallel
