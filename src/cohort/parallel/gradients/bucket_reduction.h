#pragma once

#include <optional>

#include "cohort/collective/group.h"
#include "cohort/collective/shard_reducer.h"
#include "cohort/parallel/gradients/bucket.h"
#include "cohort/parallel/gradients/gradient_options.h"

namespace cohort::parallel {

// How a bucket's sum over all ranks is made: in the order of the tree over shards; in f16 or bf16
// on the wire; or by the user's function. The last two take one sum from each rank, so their bits
// depend on the number of ranks.
//
// Threads: confined to one at a time (the communication thread). `group` must outlive it.
class BucketReduction {
 public:
  BucketReduction(collective::Group& group, const GradientSyncOptions& options, int shards,
                  collective::ShardRange own);

  // How this rank adds up its own shards before run().
  const collective::ShardPlan& plan() const;

  // From the bucket's partials to the sum over all ranks in its values, or to this rank's slice of
  // it where the bucket scatters. Collective.
  void run(Bucket& bucket);

 private:
  void run_compressed(Bucket& bucket);

  collective::Group& group_;
  Compression compression_;
  BucketReducer reducer_;
  double scale_;
  collective::ShardReducer shards_;
  std::optional<collective::ShardPlan> own_;  // one node for all own shards; none: as in the tree
  collective::Buffer wire_;
};

}  // namespace cohort::parallel
