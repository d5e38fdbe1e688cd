#pragma once

#include <optional>

#include "cohort/parallel/gradients/buffer_sync.h"
#include "cohort/parallel/gradients/gradient_memory.h"
#include "cohort/parallel/tables/local_tables.h"
#include "cohort/train/exchange.h"

namespace cohort::train {

// Replicas that add up their gradients among themselves; each then makes the same update. All
// results have the same bits everywhere, whoever computed which shard. Embedding tables are only
// for a replica that is alone: it has them in its process.
class AllReduceExchange final : public Exchange {
 public:
  // `own`: memory for gradients that stay in this process.
  AllReduceExchange(
      const parallel::Replica& replica, std::chrono::milliseconds timeout,
      std::shared_ptr<parallel::BlockPool> own = parallel::BlockPool::of_this_process());

  void agree(const nlohmann::json& values) override;
  std::string text_of_first(const std::function<std::string()>& make) override;
  void attach(const Training& training) override { attach(training, {}, {}); }
  // The same with the runs of shards that each rank owns, and a call for each bucket that goes out
  // (GradientSyncOptions).
  void attach(const Training& training, std::vector<collective::ShardRange> runs,
              std::function<void(std::size_t bucket)> on_bucket);
  collective::ShardRange own_shards() const override;
  parallel::GradientSync& gradients() override { return *gradients_; }
  double gradient_norm() const override { return gradient_norm_; }
  std::int64_t begin(std::int64_t step) override { return step; }
  void take_values_of_first() override;
  void take_buffers_of_first() override;
  void begin_step(const StepPlace&) override {}
  void begin_shard(int shard) override;
  void end_shard(double weight) override;
  Sums finish_step(const StepPlace& place, std::span<const Sums> mine) override;
  Agreed follow(const Wishes& wishes) override;

  // finish_step() in its two halves: everything that needs the others, then everything that changes
  // the model.
  Sums reduce_step(std::span<const Sums> mine);
  void apply_step();
  // Of the step that was reduced last: how many samples each shard had, and which rank computed it.
  std::vector<std::uint32_t> shard_samples() const;
  std::vector<std::uint16_t> shard_owners() const;
  // As follow(), and the greatest of what the replicas give.
  std::uint64_t follow_change(const Wishes& wishes, std::uint64_t change);
  const Agreed& agreed() const { return agreed_; }

  void settle() override {}
  parallel::TableImages bring_state_home() override { return tables_->images(); }
  void restore_tables(parallel::TableImages images, std::int64_t step) override {
    tables_->restore(images, static_cast<std::uint64_t>(step));
  }
  void add_logs(Logs& logs) override;
  bool validates() const override { return true; }
  void refresh() override {}
  Range share(std::int64_t items) const override;
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items) override;
  torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) override;
  std::chrono::nanoseconds waited() const override;

 private:
  void attach_tables(torch::nn::Module& module);
  Deadline deadline() const { return Deadline::after(timeout_); }

  parallel::Replica replica_;
  std::chrono::milliseconds timeout_;
  std::optional<Training> training_;
  parallel::NamedTensors parameters_;
  std::shared_ptr<parallel::GradientMemory> memory_;
  std::optional<parallel::GradientSync> gradients_;
  std::optional<parallel::BufferSync> buffers_;
  std::optional<parallel::LocalTables> tables_;
  std::vector<collective::ShardRange> runs_;  // by rank
  std::vector<double> item_samples_;          // of the last add_up()
  Agreed agreed_;
  std::chrono::nanoseconds waited_{};
  double gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace cohort::train
