#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cohort/membership/ledger/ledger.h"
#include "cohort/membership/protocol/view.h"
#include "cohort/parallel/strategies/elastic_membership.h"
#include "cohort/train/all_reduce_exchange.h"
#include "cohort/train/checkpoint/safetensors.h"
#include "cohort/train/exchange.h"
#include "cohort/train/state_transfer.h"

namespace cohort::train {

// Replicas that add up their gradients among themselves while they come and go: one
// AllReduceExchange after the other, each over the group of a view (membership/view.h).
//
// A step has all its collectives before it changes anything; then the lease is asked, the update is
// made, and that is the commit. A step that breaks off before leaves the model as it was.
// Replicas that are behind in a view own no shards in its first step. While the others compute, the
// first that has the state sends it; they take the step's sum like everybody, put the state in
// place, and make the update: nobody waited for them.
//
// Replica 0 of the view keeps the ledger of committed steps; its successor writes what it could
// not.
//
// Threads: as Exchange. Failure: as Exchange. What the view's group throws (survives()) means that
// the members changed: call change(), then do the stage again.
class ElasticExchange final : public Exchange {
 public:
  ElasticExchange(const parallel::Replica& replica, std::chrono::milliseconds timeout);
  ~ElasticExchange() override;

  // Enters the job at the first call: returns when this replica belongs to a view.
  void agree(const nlohmann::json& values) override;
  std::string text_of_first(const std::function<std::string()>& make) override;
  void attach(const Training& training) override;
  collective::ShardRange own_shards() const override { return inner_->own_shards(); }
  parallel::GradientSync& gradients() override { return inner_->gradients(); }
  std::int64_t begin(std::int64_t step) override;
  void take_values_of_first() override { inner_->take_values_of_first(); }
  void take_buffers_of_first() override {}  // steps keep them equal
  void begin_step(const StepPlace& place) override;
  void begin_shard(int shard) override { inner_->begin_shard(shard); }
  void end_shard(double weight) override { inner_->end_shard(weight); }
  Sums finish_step(const StepPlace& place, std::span<const Sums> mine) override;
  double gradient_norm() const override { return inner_->gradient_norm(); }
  Agreed follow(const Wishes& wishes) override;
  void settle() override {}
  parallel::TableImages bring_state_home() override { return {}; }
  void restore_tables(parallel::TableImages images, std::int64_t step) override;
  bool validates() const override { return true; }
  void refresh() override {}
  Range share(std::int64_t items) const override { return inner_->share(items); }
  Sums add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items) override {
    return inner_->add_up(mine, first, items);
  }
  torch::Tensor gather_rows(const std::vector<torch::Tensor>& rows) override {
    return inner_->gather_rows(rows);
  }
  std::chrono::nanoseconds waited() const override;
  ElasticExchange* elastic() override { return this; }

  // Whether this error of a stage only says that the members changed. Not after finish(): whoever
  // is lost then is missed.
  bool survives(const std::exception& error) const;

  const membership::View& view() const { return seat_.view(); }
  parallel::Replica replica() const;  // as it is in the view
  // Somebody in the view has the state of a training, and this replica has less.
  bool is_behind() const { return !over_ && view().is_behind(seat_.rank()); }
  // This is not the first view: a training may have been under way before it.
  bool began_before() const { return !over_ && view().number > 1; }

  // This replica has committed `stage` stages and is at rest. Returns in the next view.
  void change(std::int64_t stage, const std::string& why);
  // A planned change that all replicas agreed on in follow().
  bool change_is_due() const { return change_due_; }
  // The step that was under way when the members changed is done again here, not copied.
  bool redoes_step() const { return step_lost_ && !is_behind(); }

  // Where it is behind: what the first that has the state tells of it. The tensors come meanwhile;
  // `place` gets them before they are needed, in complete_transfer() or finish_step().
  nlohmann::json receive();
  void on_state(std::function<void(NamedTensors)> place) { place_ = std::move(place); }
  // Where it is the first that has the state, and others are behind. Buffers among the tensors are
  // copied; the rest must not change before the next step's update.
  void give(const nlohmann::json& image, NamedTensors tensors);
  bool is_donor() const { return !learners_.empty() && view().donor() == seat_.rank(); }
  // Before a stage that is not a step: everybody has the state.
  void complete_transfer();
  bool awaits_state() const { return receiver_.has_value(); }

  // A stage is committed. `stepped`: it was a step. `samples_per_second`: of all replicas.
  void commit(std::int64_t stage, std::int64_t step, double samples_per_second, bool stepped);
  // Training is over here; false: the members change first.
  bool finish(std::int64_t stage);

  // Training begins, or goes on from a checkpoint, after `step` steps: what the ledger has of later
  // ones is done again. It is of the first fit() alone.
  void begin_ledger(std::int64_t step);
  // What the ledger is about, before anything is committed.
  void keep_ledger(const membership::LedgerPlan& plan) { ledger_plan_ = plan; }
  nlohmann::json last_record() const;  // of the ledger, for whoever copies the state
  void set_last_record(const nlohmann::json& record);

 private:
  void make_inner();
  void attach_inner();
  std::vector<collective::ShardRange> runs() const;
  void end_learning();
  void place_state();
  void keep_buffers();
  void forget_step();
  void open_ledger();
  void record(const StepPlace& place);
  Deadline deadline() const { return Deadline::after(timeout_); }

  parallel::Replica replica_;  // as it was given: device and seat
  parallel::ElasticMembership& seat_;
  std::chrono::milliseconds timeout_;
  std::optional<Training> training_;
  // Kept from view to view: fresh pages for a large model take as long as a part of a step.
  std::shared_ptr<parallel::BlockPool> gradient_blocks_ = parallel::BlockPool::of_this_process();
  std::optional<AllReduceExchange> inner_;
  bool entered_ = false;
  bool over_ = false;          // finish() was true: the members stay as they are
  std::vector<int> learners_;  // the ranks that have not got the state yet
  bool change_due_ = false;
  std::optional<StateSender> sender_;
  std::optional<StateReceiver> receiver_;
  std::function<void(NamedTensors)> place_;
  std::optional<NamedTensors> buffers_before_;                    // of the step under way
  std::int64_t step_ = 0;                                         // under way, or the next
  bool step_lost_ = false;                                        // it was begun in an earlier view
  std::optional<std::chrono::steady_clock::time_point> changed_;  // no step in this view yet
  std::chrono::steady_clock::time_point last_commit_;
  std::chrono::nanoseconds waited_before_{0};  // in earlier views

  std::optional<membership::LedgerPlan> ledger_plan_;
  std::optional<membership::LedgerWriter> ledger_;  // on replica 0
  std::optional<membership::LedgerRecord> last_record_;
};

}  // namespace cohort::train
