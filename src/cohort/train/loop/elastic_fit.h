#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cohort/membership/protocol/view.h"
#include "cohort/train/elastic/view_driver.h"
#include "cohort/train/loop/fit_loop.h"
#include "cohort/train/sync/elastic_sync.h"

namespace cohort::train {

// What makes the loops of an ElasticFit.
struct ElasticFitParts {
  // From a checkpoint or from the start, with the values that the model had before the first call.
  // Collective over the view.
  std::function<std::unique_ptr<FitLoop>()> begin;
  // For a newcomer to a training of so many virtual shards.
  std::function<std::unique_ptr<FitLoop>(int shards)> join;
  std::function<void()> on_begun;  // all members have committed the first stage
};

// A fit() of one worker in an elastic job: a FitLoop's stages in view after view. A stage that broke
// off is done again from the state before it, and a member that is behind takes that state from
// another. Until the training has begun on all workers, the loss of one means to begin again with
// the rest.
// Confined to the worker's thread. Ownership: `sync` must outlive it. Failure: as ViewBody.
class ElasticFit final : public elastic::ViewBody {
 public:
  ElasticFit(ElasticSync& sync, ElasticFitParts parts) : sync_(sync), parts_(std::move(parts)) {}

  std::int64_t commits() const override { return stage_; }
  void begin_view() override;
  bool train() override;
  void roll_back() override;
  void end_view(const std::string& why) override { sync_.end_view(why); }

  FitLoop* loop() { return loop_.get(); }  // null before the first begin_view()

 private:
  // What this member had before it began to copy another's state.
  struct PendingTransfer {
    std::int64_t stage = membership::kNoState;
    nlohmann::json snapshot;
  };
  // What a stage began from.
  struct BeforeStage {
    Position position;
    nlohmann::json callbacks;  // their states; null for a step, which does not call them at its end
  };
  void begin_or_join();
  void run_stage();
  void commit_stage(bool stepped);
  membership::LedgerPlan ledger_plan() const;
  nlohmann::json snapshot(const TrainingState& state) const;
  void apply_snapshot(const nlohmann::json& snapshot);
  void take_state(const nlohmann::json& told);
  void give_state();
  void show_view();

  ElasticSync& sync_;
  ElasticFitParts parts_;
  std::unique_ptr<FitLoop> loop_;
  std::int64_t stage_ = membership::kNoState;
  std::optional<PendingTransfer> pending_;
  std::optional<BeforeStage> before_;
};

}  // namespace cohort::train
