#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::parallel {

class GradientMemory;
class GradientShares;

enum class Compression { none, f16, bf16 };

// Replaces the all-reduce of one bucket: `values` holds this rank's (f32, f64, ...) sum over its
// shards; on return the sum over all ranks. Called on the communication thread, in the same order
// on all ranks. Must be collective over `group`.
using BucketReducer = std::function<void(collective::Group& group, torch::Tensor values)>;

// Takes one bucket's gradients of this worker's shards to parameter servers: one array of the
// bucket's elements for each node of the shards' plan (ShardPlan). Called on the thread of the hook
// that filled the bucket, as soon as it is full; the memory is the caller's again when it returns.
using BucketSink =
    std::function<void(std::size_t bucket, std::span<const std::byte* const> partials)>;

// A GradientSync that sums over the ranks of its group.
struct GradientSyncOptions {
  std::size_t bucket_bytes = 8 << 20;
  std::size_t first_bucket_bytes = 1 << 20;  // small, so that communication starts early
  // The job's virtual shards; rank r of n owns a contiguous run (ShardPlan). 0: one a rank.
  int shards = 0;
  // Which rank owns which run of them, where that is not for shards_of to say; a rank without
  // shards calls finish() only, adds nothing, and gets the sum (collective::runs_of). Its buckets
  // go out there: with such runs call finish() before the step's other collectives.
  std::vector<collective::ShardRange> runs;
  // Called before each bucket goes out, on the thread of the hook that filled it.
  std::function<void(std::size_t bucket)> on_bucket;
  // On GPUs: ranks' sums may be added in the order that their device group likes, which is faster.
  bool any_order = false;
  bool average = false;       // divide the sum by `shards`; otherwise the loss was weighted before
  bool allow_unused = false;  // parameters without a gradient count as zero instead of an error
  // What .grad holds when a step's first shard begins is part of the shard's gradient; otherwise it
  // is dropped. For ranks with one shard each.
  bool accumulates = false;
  Compression compression = Compression::none;
  BucketReducer reducer;  // empty: the built-in sum in tree order
  // Where this rank's slices of gradients go that the ranks divide (gradient_shares.h): their
  // parameters have no .grad after finish(). nullptr: every rank gets all sums. Without a
  // compression or a reducer.
  std::shared_ptr<GradientShares> shares;
  // Where large gradients lie (gradient_memory.h); nullptr: in memory of its own. Of this group.
  std::shared_ptr<GradientMemory> memory;
};

// A GradientSync that sums over this worker's shards only, and hands that to parameter servers.
struct GradientPushOptions {
  std::size_t bucket_bytes = GradientSyncOptions().bucket_bytes;
  std::size_t first_bucket_bytes = GradientSyncOptions().first_bucket_bytes;
  int shards = 1;             // the job's virtual shards
  int rank = 0;               // of this worker among ...
  int size = 1;               // ... all of them: which shards are its own
  bool allow_unused = false;  // as above
};

}  // namespace cohort::parallel
