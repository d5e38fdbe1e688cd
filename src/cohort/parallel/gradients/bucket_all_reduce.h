#pragma once

#include <string>
#include <vector>

#include "cohort/collective/work.h"
#include "cohort/parallel/gradients/bucket_exchange.h"
#include "cohort/parallel/gradients/bucket_reduction.h"
#include "cohort/parallel/gradients/gradient_options.h"

namespace cohort::parallel {

// Sums buckets over the ranks of a group, on the group's communication thread while backward goes
// on. Buckets go out in their order, which is the same on all ranks: one that is complete early
// waits for those before it.
//
// The destructor ends what is under way: it aborts the group and waits for the calls to return.
class BucketAllReduce final : public BucketExchange {
 public:
  // `group` must outlive it.
  BucketAllReduce(collective::Group& group, const GradientSyncOptions& options);
  ~BucketAllReduce() override;

  collective::ShardRange own_shards() const override { return own_; }
  const collective::ShardPlan& plan() const override { return reduction_.plan(); }
  void begin_step(std::span<const std::unique_ptr<Bucket>> buckets,
                  std::span<BucketEvent> events) override;
  void add(std::size_t bucket) override;
  void finish(Deadline deadline) override;
  bool returns_sums() const override { return true; }
  void agree_on_order(GradientOrder& order, Deadline deadline) override;
  void abort(const std::string& reason) noexcept override;

 private:
  void launch(std::size_t bucket);

  collective::Group& group_;
  std::function<void(std::size_t bucket)> on_bucket_;
  int order_source_;  // the rank whose order counts: the first that has shards
  collective::ShardRange own_;
  BucketReduction reduction_;  // belongs to the communication thread while works_ are under way
  std::span<const std::unique_ptr<Bucket>> buckets_;
  std::span<BucketEvent> events_;
  std::vector<char> complete_;  // by bucket
  std::size_t next_ = 0;        // to go out
  std::vector<collective::Work> works_;
};

}  // namespace cohort::parallel
