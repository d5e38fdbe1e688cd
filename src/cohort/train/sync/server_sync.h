#pragma once

#include <memory>
#include <optional>

#include "cohort/parallel/gradients/buffer_partials.h"
#include "cohort/parallel/gradients/replica.h"
#include "cohort/parallel/strategies/servers.h"
#include "cohort/train/sync/server_model.h"
#include "cohort/train/sync/server_tables.h"
#include "cohort/train/sync/step_sync.h"

namespace cohort::train {

// A worker's replica and the parameter servers. Gradients leave, bucket by bucket, while backward
// makes them; the servers update; the values for the next step come back. Workers wait for each
// other as far as the job's policy says, and know nothing of each other otherwise.
//
// Synchronous training with all workers gives the bits that replicas with an all-reduce give on the
// same shards. A stop takes one step more: the request travels with the end of the
// next.
//
// One training a job: begin() once, whatever the number of fit() calls.
class ServerSync final : public StepSync {
 public:
  ServerSync(const parallel::Replica& replica, std::chrono::milliseconds timeout);
  ~ServerSync() override;

  void attach(const SyncedModel& model) override;
  collective::ShardRange own_shards() const override;
  parallel::GradientSync& gradients() override { return *gradients_; }
  std::string dry_run() const override;
  std::int64_t begin(std::int64_t step) override;
  void begin_step(const StepInfo& info) override;
  void begin_shard(int shard) override;
  void end_shard(double weight) override;
  StepResult finish_step(const StepInfo& info, std::span<const Sums> mine) override;
  void finish_training() override;
  void broadcast_from_first() override {}  // the servers' values are everywhere
  void broadcast_buffers() override {}
  parallel::TableImages gather_state() override;
  void restore_tables(parallel::TableImages images, std::int64_t step) override;
  std::chrono::nanoseconds waited() const override { return waited_; }

  // For ServerAgreement and ServerEvaluation.
  const parallel::Replica& replica() const { return replica_; }
  parallel::Servers& servers() { return servers_; }
  ps::Client& client() { return servers_.client(deadline()); }
  Deadline deadline() const { return Deadline::after(timeout_); }
  bool has_begun() const { return begun_; }
  void set_agreement(std::string values) { agreement_ = std::move(values); }
  void request_stop(std::string why) { requested_stop_ = std::move(why); }
  const std::string& stop_reason() const { return stop_; }  // that the servers told
  void refresh();  // the values as the servers have them now

 private:
  ps::ModelSpec spec() const;
  bool has_backups() const;
  bool drops_not_finite() const;
  void read(std::uint64_t clock);
  Sums sums_of(const ps::StepOutcome& outcome, std::span<const Sums> mine);
  void write_stats();

  parallel::Replica replica_;
  parallel::Servers& servers_;
  std::chrono::milliseconds timeout_;
  std::string agreement_;

  std::optional<SyncedModel> trained_;
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
  std::string requested_stop_;
  std::string stop_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace cohort::train
