#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/parallel/gradients/bucket.h"
#include "cohort/parallel/gradients/bucket_event.h"
#include "cohort/parallel/gradients/gradient_order.h"

namespace cohort::parallel {

// Where the buckets of a GradientSync go when this rank's part of them is complete: into an
// all-reduce (BucketAllReduce), or to parameter servers (BucketPush).
//
// A step: begin_step(); add() of every bucket, in any order; finish().
// Threads: one call at a time. A bucket's memory and its event belong to the exchange from add() to
// the end of finish().
// Failure: what the group or the sink throws; then the object is only good to destroy.
class BucketExchange {
 public:
  virtual ~BucketExchange() = default;

  // The shards that this rank owns, and how it adds them up before add().
  virtual collective::ShardRange own_shards() const = 0;
  virtual const collective::ShardPlan& plan() const = 0;

  // events[i] is that of buckets[i]. Both stay where they are until finish() has returned.
  virtual void begin_step(std::span<const std::unique_ptr<Bucket>> buckets,
                          std::span<BucketEvent> events) = 0;
  virtual void add(std::size_t bucket) = 0;
  virtual void finish(Deadline deadline) = 0;

  // Whether each bucket then holds the sum over all ranks.
  virtual bool returns_sums() const = 0;
  // Makes one rank's order of gradients that of all ranks, where it has seen one.
  virtual void agree_on_order(GradientOrder& order, Deadline deadline) = 0;
  // This rank cannot finish the step: the others fail with `reason` instead of waiting.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace cohort::parallel
