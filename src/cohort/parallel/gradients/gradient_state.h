#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/collective/work.h"
#include "cohort/parallel/gradients/bucket.h"
#include "cohort/parallel/gradients/bucket_reduction.h"
#include "cohort/parallel/gradients/gradient_hooks.h"
#include "cohort/parallel/gradients/gradient_memory.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/gradients/local_sum.h"

namespace cohort::parallel {

// What stands behind a GradientSync: one step after the other of
//   begin_shard, hooks, end_shard  for each own shard, then finish.
// During the last own shard, launch_full_buckets() hands buckets over in their order.
//
// Who touches what, when:
// - The hooks run on the thread that calls backward() (CPU) or on the device's autograd thread;
// then
//   the caller sleeps in backward(). `mutex_` covers a graph with both.
// - A launched bucket's memory, `reduction_` and the bucket's `begun` and `ended` belong to the
//   group's thread until the bucket's Work is done; starting and waiting hand them over and back.
struct GradientSync::State {
 public:
  State(collective::Group& group, NamedTensors parameters, GradientSyncOptions options);
  ~State();

  collective::ShardRange own_shards() const { return own_; }
  std::vector<BucketLayout> layouts() const;
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::string>& names() const { return names_; }
  void begin_shard(int shard);
  void end_shard();
  bool discard_shard();
  void finish(Deadline deadline);
  bool set_no_sync(bool on);  // returns what it was
  std::chrono::nanoseconds waited() const { return waited_; }
  void record_events(bool on) { recording_ = on; }
  std::vector<BucketEvent> take_events() { return std::exchange(events_, {}); }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::size_t entry = 0;
  };

  bool is_last_shard() const { return shards_done_ + 1 == own_.count; }
  bool is_large(const torch::Tensor& parameter) const;
  void make_buckets();
  void let_gradients_go();
  void expect_gradients();  // those of the last own shard
  void on_gradient(std::size_t parameter);
  void take_gradient(std::size_t parameter);  // .grad, or zeros, is the shard's contribution
  bool accepts(std::size_t parameter, const torch::Tensor& gradient);
  std::string names_of(const std::vector<std::size_t>& parameters) const;
  void launch_full_buckets();
  void launch_without_shards();        // all buckets, to which this rank adds nothing
  void hand_over(std::size_t bucket);  // to the sink
  void wait_for_buckets(Deadline deadline);
  void agree_on_order(Deadline deadline);
  void finish_alone();
  [[noreturn]] void fail(const std::string& reason, const std::string& advice);

  collective::Group& group_;
  GradientSyncOptions options_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // once each, those that require gradients
  int shards_;
  collective::ShardRange own_;
  bool alone_;  // nobody to sum with: gradients stay where autograd puts them
  BucketReduction reduction_;
  LocalSum local_;
  GradientHooks hooks_;
  std::vector<std::size_t> large_;                 // bytes of the gradients that are
  std::shared_ptr<GradientMemory> memory_;         // for those; nullptr where there are none
  std::optional<GradientMemory::Use> memory_use_;  // in a shard

  std::vector<int> order_;  // in which gradients are expected; the same on all ranks
  bool order_agreed_ = false;
  bool order_changed_ = false;  // the buckets are made anew before the next step
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;  // by parameter

  // Of the step and shard under way.
  std::mutex mutex_;
  int shards_done_ = 0;
  bool in_shard_ = false;
  bool no_sync_ = false;
  std::vector<char> fired_;  // a hook came
  std::vector<char> taken_;  // the contribution is in its place
  std::vector<int> ready_order_;
  std::vector<std::size_t> missing_of_bucket_;  // parameters that the last shard still owes
  std::size_t next_bucket_ = 0;
  std::vector<collective::Work> works_;
  std::string problem_;  // why finish() must fail, and the advice that goes with it
  std::string advice_;

  std::chrono::nanoseconds waited_{0};
  bool recording_ = false;
  std::vector<BucketEvent> events_;
  std::vector<BucketEvent> step_events_;  // by bucket
};

}  // namespace cohort::parallel
