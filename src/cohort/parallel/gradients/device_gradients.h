#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cohort/collective/device/device_group.h"
#include "cohort/collective/group.h"
#include "cohort/parallel/devices/device_shard_sum.h"
#include "cohort/parallel/gradients/gradient_collector.h"
#include "cohort/parallel/gradients/gradient_hooks.h"
#include "cohort/parallel/gradients/gradient_options.h"

namespace cohort::parallel {

// Gradients that stay on the device. A bucket's gradients are copied into one tensor when autograd
// has made all of them, the sums over this rank's shards are made there, and the bucket of the last
// own shard goes out on a stream of its own, beside the rest of backward. finish() makes the
// thread's stream wait for that one; the host waits for nothing. Each .grad is then a view of its
// bucket, at the same address in every step. Where this rank has one shard, all of it can be
// recorded into a CUDA graph.
//
// Buckets go out in one order on all ranks: that of the parameters, from the last on.
// Threads: hooks run on the device's autograd thread, while the replica's is in backward().
// Ownership: `group` and its device group must outlive it.
class DeviceGradients final : public GradientCollector {
 public:
  // Parameters are on one device. `device`: nullptr where `group` has one rank.
  DeviceGradients(collective::Group& group, collective::DeviceGroup* device,
                  const NamedTensors& parameters, const GradientSyncOptions& options);
  ~DeviceGradients() override;

  std::vector<BucketLayout> layouts() const override;
  void begin_shard(int shard) override;
  void end_shard() override;
  bool discard_shard() override;
  void finish(Deadline deadline) override;
  bool set_no_sync(bool on) override;
  bool can_be_captured() const override;

 private:
  struct Bucket;

  void add_bucket(BucketLayout layout);
  void drop_gradients();
  void on_gradient(std::size_t parameter);
  void take(Bucket& bucket);
  torch::Tensor flat_gradient(const Bucket& bucket, std::size_t entry);
  void launch_complete();
  bool has_gradient(std::size_t parameter) const;

  collective::Group& group_;
  collective::DeviceGroup* device_;
  DeviceShardSum sum_;
  double scale_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  torch::Tensor zeros_;                 // for the gaps between a bucket's entries
  std::optional<c10::Stream> sending_;  // of the exchange between ranks
  std::function<void(std::size_t)> on_bucket_;

  std::mutex mutex_;                      // guards what follows, and turns_, while backward runs
  std::optional<c10::Stream> computing_;  // of the shard under way
  std::vector<char> fired_;               // by parameter: its hook came in this shard
  std::size_t next_ = 0;                  // bucket to go out
  bool computed_ = false;                 // a bucket was taken, in this shard ...
  bool recorded_ = false;                 // ... or only into a graph
  bool no_sync_ = false;
  std::optional<Problem> problem_;

  GradientHooks hooks_;  // goes first
};

}  // namespace cohort::parallel
