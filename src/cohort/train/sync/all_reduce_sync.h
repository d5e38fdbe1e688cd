#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/parallel/gradients/buffer_sync.h"
#include "cohort/parallel/gradients/gradient_memory.h"
#include "cohort/parallel/gradients/replica.h"
#include "cohort/parallel/tables/local_tables.h"
#include "cohort/train/sync/fused_step.h"
#include "cohort/train/sync/sharded_update.h"
#include "cohort/train/sync/step_sync.h"

namespace cohort::train {

// Replicas that add up their gradients among themselves; each then makes the same update. All
// results have the same bits everywhere, whichever replica computed which shard. Embedding tables
// are only for a replica that is alone: it has them in its process.
class AllReduceSync final : public StepSync {
 public:
  // `own`: memory for gradients that stay in this process.
  AllReduceSync(const parallel::Replica& replica, std::chrono::milliseconds timeout,
                std::shared_ptr<parallel::BlockPool> own = parallel::BlockPool::of_this_process());

  void attach(const SyncedModel& model) override { attach(model, {}, {}); }
  // The same with the runs of shards that each rank owns, and a call for each bucket that goes out
  // (GradientSyncOptions).
  void attach(const SyncedModel& model, std::vector<collective::ShardRange> runs,
              std::function<void(std::size_t bucket)> on_bucket);
  collective::ShardRange own_shards() const override;
  parallel::GradientSync& gradients() override { return *gradients_; }
  std::int64_t begin(std::int64_t step) override { return step; }
  void begin_step(const StepInfo& info) override;
  void begin_shard(int shard) override;
  void end_shard(double weight) override;
  StepResult finish_step(const StepInfo& info, std::span<const Sums> mine) override;
  void finish_training() override;
  // Not with a loss scale, which the host decides on, a divided state, or embedding tables.
  bool can_defer() const override;
  torch::Tensor finish_unread_step(double gradient_factor, bool recorded) override;
  StepResult read_step(const StepInfo& info, std::span<const Sums> mine) override;
  bool can_be_recorded() override;
  std::vector<double> recorded_constants() const override;
  void before_replay() override { fused_->prepare(); }
  void after_replay() override { fused_->count(); }
  bool discard_shard() override;

  // finish_step() in its two halves: everything that needs the others, then everything that changes
  // the model (and measures the gradient's norm). `flag`: whether it is set on any replica, which it
  // becomes on all.
  StepResult reduce_step(const StepInfo& info, std::span<const Sums> mine, bool& flag);
  void apply_step(StepResult& result);
  // Of the step that was reduced last: how many samples each shard had, and which rank computed it.
  const std::vector<std::uint32_t>& shard_samples() const { return shard_samples_; }
  std::vector<std::uint16_t> shard_owners() const;

  void broadcast_from_first() override;
  void broadcast_buffers() override;
  void require_trainable(torch::nn::Module& module) const override;
  parallel::TableImages gather_state() override;
  void release_state() override;
  void restore_tables(parallel::TableImages images, std::int64_t step) override {
    tables_->restore(images, static_cast<std::uint64_t>(step));
  }
  void add_table_sizes(Logs& logs) const;
  std::chrono::nanoseconds waited() const override { return gradients_->waited() + waited_; }

 private:
  Deadline deadline() const { return Deadline::after(timeout_); }
  StepResult read_step(const StepInfo& info, std::span<const Sums> mine, bool& flag);
  void update();

  parallel::Replica replica_;
  std::chrono::milliseconds timeout_;
  std::optional<SyncedModel> model_;
  parallel::NamedTensors parameters_;
  std::shared_ptr<parallel::GradientMemory> memory_;
  std::optional<parallel::GradientSync> gradients_;
  std::optional<parallel::BufferSync> buffers_;
  std::optional<parallel::LocalTables> tables_;
  std::optional<ShardedUpdate> sharded_;      // where the ranks divide the optimizer's state
  std::optional<FusedStep> fused_;            // of parameters on a GPU
  std::vector<collective::ShardRange> runs_;  // by rank
  std::vector<std::uint32_t> shard_samples_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
