#pragma once

#include <memory>
#include <optional>

#include "cohort/parallel/gradients/buffer_partials.h"
#include "cohort/parallel/strategies/servers.h"
#include "cohort/train/exchange.h"
#include "cohort/train/server_model.h"
#include "cohort/train/server_tables.h"

namespace cohort::train {

// A worker's replica and the parameter servers. Gradients leave, bucket by bucket, while backward
// makes them; the servers update; the values for the next step come back. Workers wait for each
// other as far as the job's policy says, and know nothing of each other otherwise.
//
// Synchronous training with all workers gives the bits that replicas with an all-reduce give on the
// same shards. A stop takes one step more: the wish travels with the end of the next.
//
// One training a job: begin() once, whatever the number of fit() calls.
class ServerExchange final : public Exchange {
 public:
  ServerExchange(const parallel::Replica& replica, std::chrono::milliseconds timeout);
  ~ServerExchange() override;

  void agree(const nlohmann::json& values) override;
  std::string text_of_first(const std::function<std::string()>& make) override;
  void attach(const Training& training) override;
  collective::ShardRange own_shards() const override;
  parallel::GradientSync& gradients() override { return *gradients_; }
  std::string dry_run() const override;
  std::int64_t begin(std::int64_t step) override;
  void take_values_of_first() override {}
  void take_buffers_of_first() override {}
  void begin_step(const StepPlace& place) override;
  void begin_shard(int shard) override;
  void end_shard(double weight) override;
  Sums finish_step(const StepPlace& place, std::span<const Sums> mine) override;
  std::int64_t steps_done(const StepPlace&) const override {
    return static_cast<std::int64_t>(sequence_);
  }
  bool tolerates_not_finite() const override;
  Agreed follow(const Wishes& wishes) override;
  void settle() override;
  parallel::TableImages bring_state_home() override;
  void restore_tables(parallel::TableImages images, std::int64_t step) override;
  void add_logs(Logs& logs) override;
  bool validates() const override { return replica_.is_first(); }
  void refresh() override;
  Range share(std::int64_t items) const override { return {0, items}; }
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items) override;
  torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) override;
  std::chrono::nanoseconds waited() const override { return waited_; }

 private:
  Deadline deadline() const { return Deadline::after(timeout_); }
  ps::Client& client() { return servers_.client(deadline()); }
  ps::ModelSpec spec() const;
  bool has_backups() const;
  void read(std::uint64_t clock);
  Sums sums_of(const ps::StepOutcome& outcome, std::span<const Sums> mine);
  void write_stats();

  parallel::Replica replica_;
  parallel::Servers& servers_;
  std::chrono::milliseconds timeout_;
  std::string agreement_;

  std::optional<Training> training_;
  std::unique_ptr<collective::Group> own_group_;  // of one: GradientSync's memory
  std::optional<collective::ShardPlan> plan_;
  std::optional<parallel::GradientSync> gradients_;
  std::optional<parallel::BufferPartials> buffers_;
  std::optional<ServerModel> model_;
  std::optional<ServerTables> tables_;
  parallel::TableImages restored_;  // that the servers get with the model

  bool begun_ = false;
  bool knows_total_ = false;    // what the servers' sums were before
  std::uint64_t sequence_ = 0;  // of the last step that was finished, here or without this worker
  std::uint32_t fit_ = 0;       // the number of this fit(), from 1
  Sums total_;
  std::string wish_;
  std::string stop_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
