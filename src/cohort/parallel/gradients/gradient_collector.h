#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/parallel/gradients/bucket_exchange.h"
#include "cohort/parallel/gradients/gradient_buckets.h"
#include "cohort/parallel/gradients/gradient_hooks.h"
#include "cohort/parallel/gradients/local_sum.h"
#include "cohort/parallel/gradients/shard_turns.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

struct CollectorOptions {
  std::size_t first_bucket_bytes = 0;
  std::size_t bucket_bytes = 0;
  bool allow_unused = false;
  bool accumulates = false;
  std::shared_ptr<GradientMemory> memory = {};
  std::shared_ptr<GradientShares> shares = {};
};

// What stands behind a GradientSync: takes each parameter's gradient from autograd into its bucket,
// shard by shard, and gives buckets to the exchange as the last own shard completes them. Without
// an exchange there is no rank to sum with: gradients stay where autograd puts them.
//
// Threads: the hooks run on the thread that calls backward() (CPU) or on the device's autograd
// thread; then the caller sleeps in backward(). `mutex_` covers a graph with both. Everything else
// is confined to the replica's thread.
class GradientCollector {
 public:
  // `group` is for the buckets' memory. `own`: the shards of this rank.
  GradientCollector(collective::Group& group, const NamedTensors& parameters,
                    CollectorOptions options, std::unique_ptr<BucketExchange> exchange,
                    collective::ShardRange own);
  ~GradientCollector();
  GradientCollector(const GradientCollector&) = delete;
  GradientCollector& operator=(const GradientCollector&) = delete;

  collective::ShardRange own_shards() const { return turns_.own(); }
  std::vector<BucketLayout> layouts() const;
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::string>& names() const { return names_; }
  void begin_shard(int shard);
  void end_shard();
  bool discard_shard();
  void finish(Deadline deadline);
  bool set_no_sync(bool on);  // returns what it was
  // There is no other rank or shard to sum with: gradients stay where autograd puts them.
  bool sums_alone() const { return summing_ == nullptr; }
  std::chrono::nanoseconds waited() const { return waited_; }
  void record_events(bool on) { recording_ = on; }
  std::vector<BucketEvent> take_events() { return std::exchange(recorded_, {}); }

 private:
  // Parts that only a sum over ranks needs.
  struct Summing;
  // Why finish() must fail.
  struct Problem {
    std::string reason;
    std::string advice;
  };

  void drop_gradients();
  void take_gradients_from_buckets();
  void begin_last_shard();
  void on_gradient(std::size_t parameter);
  void take_gradient(std::size_t parameter);  // .grad, or zeros, is the shard's contribution
  bool accepts(std::size_t parameter, const torch::Tensor& gradient);
  void add_without_shards();  // all buckets, to which this rank adds nothing
  void finish_alone();
  std::vector<std::size_t> without_gradient() const;
  Problem missing(const std::vector<std::size_t>& parameters, int shard) const;
  [[noreturn]] void fail(const Problem& problem);

  bool allow_unused_;
  bool accumulates_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // once each, those that require gradients
  std::unique_ptr<Summing> summing_;       // null without an exchange
  std::chrono::nanoseconds waited_{0};
  bool recording_ = false;
  std::vector<BucketEvent> recorded_;

  std::mutex mutex_;  // guards what follows while backward runs
  ShardTurns turns_;
  bool no_sync_ = false;
  std::vector<char> fired_;  // by parameter: its hook came in this shard
  std::vector<char> taken_;  // by parameter: its contribution is in its place
  std::optional<Problem> problem_;
};

}  // namespace cohort::parallel
