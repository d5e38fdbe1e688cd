#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/bucket_event.h"
#include "cohort/parallel/gradients/bucket_layout.h"
#include "cohort/parallel/gradients/gradient_options.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

class GradientCollector;

// Sums one replica's gradients with those of the others, while backward goes on.
//
//   GradientSync sync(group, parameters, {.shards = 4});
//   for each shard of mine, ascending:  sync.begin_shard(shard); loss.backward(); sync.end_shard();
//   sync.finish(deadline);   // every parameter's .grad is now the sum over all shards
//   optimizer.step();
//
// Parameters lie in buckets in the group's shared memory, so a bucket is reduced where it lies;
// after finish() each .grad is a view into its bucket. Autograd's hooks fill them; a bucket whose
// last gradient of the last own shard has come is handed to the group's communication thread, in
// one order that rank 0 fixed after the first step and told the others. Within a shard several
// backwards may follow each other (gradient accumulation): call no_sync-style `begin_shard` once,
// run all backwards but the last under NoSync. A shard without samples: begin_shard, end_shard and
// no backward; it adds zero.
//
// The sum is the tree over shard numbers (docs/algorithms.md): its bits do not depend on the number
// of ranks. Compression rounds what each rank sends, so there they do.
//
// With a sink the sums over this worker's shards go to parameter servers instead:
// `group` is then only this worker's own (of one), finish() does not wait, .grad is of no use, and
// buckets stay as first made.
//
// Gradients on a GPU stay there where the group has a device group (Group::device()) or one rank:
// the sum is made on a stream beside backward, and the host waits for nothing (device_gradients.h;
// wait_for_device() does). Otherwise, and with compression, a reducer or shares, they go through the
// host's memory. The bits are the same.
//
// Threads: confined to the replica's thread. Ownership: keeps the parameters; `group` must outlive
// it; hooks are removed by the destructor, and .grad tensors stay valid after it.
// Failure: InvalidInput that names parameters which got no gradient (unless allow_unused), or whose
// gradient is sparse; what the group throws. After a failure the object is only good to destroy.
class GradientSync {
 public:
  GradientSync(collective::Group& group, const NamedTensors& parameters,
               GradientSyncOptions options = {});
  GradientSync(collective::Group& group, const NamedTensors& parameters, BucketSink sink,
               const GradientPushOptions& options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // The shards that this rank owns, ascending: [first, first + count).
  int first_shard() const;
  int shard_count() const;

  // What buckets are made of: their layouts, and the parameters that the entries number.
  std::vector<BucketLayout> layouts() const;
  const std::vector<torch::Tensor>& parameters() const;
  const std::vector<std::string>& names() const;

  void begin_shard(int shard);
  void end_shard();
  // In place of end_shard(): gives up what was computed since begin_shard(). False, with nothing
  // done, where a part of it has been taken for the sum (not all of it was computed under NoSync), and
  // outside of a shard; but after a step that has added up nothing, or that was only recorded: true,
  // and it can be made again.
  bool discard_shard();
  void finish(Deadline deadline);

  // While one lives, backward only accumulates into this shard's gradients and nothing counts as
  // complete.
  class NoSync {
   public:
    explicit NoSync(GradientSync& sync);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientSync& sync_;
    bool before_;
  };

  // Whether what lies between begin_shard() and finish() may be recorded into a CUDA graph.
  bool can_be_captured() const;

  // Time that finish() spent waiting for others since construction: what communication cost.
  std::chrono::nanoseconds waited() const;

  // What happened to each bucket, for traces; empty unless recording was switched on.
  void record_events(bool on);
  std::vector<BucketEvent> take_events();

 private:
  std::unique_ptr<GradientCollector> collector_;
};

// L2 norm of all gradients together, then scaled down to `max_norm` if it is above. Call between
// finish() and the optimizer's step: the norm is that of the reduced gradient, the same on all
// ranks. Returns the norm before clipping.
double clip_gradients(const NamedTensors& parameters, double max_norm);

// The same by operations on the gradients' device alone: on a GPU the norm is a tensor there, and
// nothing waits for it.
torch::Tensor clip_gradients_on_device(const NamedTensors& parameters, double max_norm);

}  // namespace cohort::parallel
