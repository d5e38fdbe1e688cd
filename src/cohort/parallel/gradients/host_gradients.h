#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/parallel/gradients/bucket_exchange.h"
#include "cohort/parallel/gradients/gradient_buckets.h"
#include "cohort/parallel/gradients/gradient_collector.h"
#include "cohort/parallel/gradients/gradient_hooks.h"
#include "cohort/parallel/gradients/local_sum.h"

namespace cohort::parallel {

// Gradients in the host's memory: takes each parameter's from autograd into its bucket, shard by
// shard, and gives buckets to the exchange as the last own shard completes them. Those of GPUs come
// here and go back by copies. Without an exchange there is no rank to sum with: gradients stay where
// autograd puts them.
//
// Threads: the hooks run on the thread that calls backward() (CPU) or on the device's autograd
// thread; then the caller sleeps in backward(). `mutex_` covers a graph with both. Everything else
// is confined to the replica's thread.
class HostGradients final : public GradientCollector {
 public:
  // `group` is for the buckets' memory. `own`: the shards of this rank.
  HostGradients(collective::Group& group, const NamedTensors& parameters, CollectorOptions options,
                std::unique_ptr<BucketExchange> exchange, collective::ShardRange own);
  ~HostGradients() override;

  std::vector<BucketLayout> layouts() const override;
  void begin_shard(int shard) override;
  void end_shard() override;
  bool discard_shard() override;
  void finish(Deadline deadline) override;
  bool set_no_sync(bool on) override;
  // There is no other rank or shard to sum with: gradients stay where autograd puts them.
  bool can_be_captured() const override { return summing_ == nullptr; }
  void record_events(bool on) override { recording_ = on; }
  std::vector<BucketEvent> take_events() override { return std::exchange(recorded_, {}); }

 private:
  // Parts that only a sum over ranks needs.
  struct Summing;

  void drop_gradients();
  void take_gradients_from_buckets();
  void begin_last_shard();
  void on_gradient(std::size_t parameter);
  void take_gradient(std::size_t parameter);  // .grad, or zeros, is the shard's contribution
  void add_without_shards();                  // all buckets, to which this rank adds nothing
  void finish_alone();
  std::vector<std::size_t> without_gradient() const;
  [[noreturn]] void fail(const Problem& problem);

  std::unique_ptr<Summing> summing_;  // null without an exchange
  bool recording_ = false;
  std::vector<BucketEvent> recorded_;

  std::mutex mutex_;  // guards what follows, and turns_, while backward runs
  bool no_sync_ = false;
  std::vector<char> fired_;  // by parameter: its hook came in this shard
  std::vector<char> taken_;  // by parameter: its contribution is in its place
  std::optional<Problem> problem_;
};

}  // namespace cohort::parallel
