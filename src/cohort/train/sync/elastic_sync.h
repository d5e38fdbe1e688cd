#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/membership/group/elastic_membership.h"
#include "cohort/membership/protocol/view.h"
#include "cohort/train/sync/all_reduce_sync.h"
#include "cohort/train/sync/group_agreement.h"
#include "cohort/train/sync/replica_sync.h"
#include "cohort/train/sync/state_transfer.h"
#include "cohort/train/sync/step_ledger.h"

namespace cohort::train {

// Replicas that add up their gradients among themselves while they come and go: one AllReduceSync
// after the other, each over the group of a view (membership/view.h).
//
// A step has all its collectives before it changes anything; then the lease is asked, the update is
// made, and that is the commit. A step that breaks off before leaves the model as it was.
// Replicas that are behind in a view own no shards in its first step. While the others compute, the
// first that has the state sends it; they take the step's sum like the rest, put the state in
// place, and make the update: no other replica waited for them.
//
// Threads: as StepSync. Failure: as StepSync. An error for which elastic::is_peer_loss() holds means
// that the members changed: ElasticFit (loop/elastic_fit.h) does the stage again in the next view.
class ElasticSync final : public StepSync {
 public:
  // `replica` is that of the ReplicaSync, which this object keeps up to date.
  ElasticSync(parallel::Replica& replica, std::chrono::milliseconds timeout);
  ~ElasticSync() override;

  void attach(const SyncedModel& model) override;
  collective::ShardRange own_shards() const override { return inner_->own_shards(); }
  parallel::GradientSync& gradients() override { return inner_->gradients(); }
  std::int64_t begin(std::int64_t step) override;
  void begin_step(const StepInfo& info) override;
  void begin_shard(int shard) override { inner_->begin_shard(shard); }
  void end_shard(double weight) override { inner_->end_shard(weight); }
  StepResult finish_step(const StepInfo& info, std::span<const Sums> mine) override;
  void finish_training() override {}
  void broadcast_from_first() override { inner_->broadcast_from_first(); }
  void broadcast_buffers() override {}  // steps keep them equal
  parallel::TableImages gather_state() override { return {}; }
  void restore_tables(parallel::TableImages images, std::int64_t step) override;
  std::chrono::nanoseconds waited() const override;

  membership::ElasticMembership& membership() { return membership_; }
  const membership::View& view() const { return membership_.view(); }
  StateTransfer& transfer() { return transfer_; }
  StepLedger& ledger() { return ledger_; }
  bool is_first() const { return membership_.rank() == 0; }
  // A member of the view has the state of a training, and this replica has less.
  bool is_behind() const { return !final_ && view().is_behind(membership_.rank()); }
  // This is not the first view: a training may have been under way before it.
  bool began_before() const { return !final_ && view().number > 1; }
  // The step that was under way when the members changed is done again here, not copied.
  bool redoes_step() const { return step_lost_ && !is_behind(); }

  // The view's group is there, or is about to go.
  void begin_view();
  void end_view(const std::string& why);
  // Where it is behind: what the first that has the state tells of it. The tensors come meanwhile;
  // transfer().on_tensors() gets them before they are needed, in complete_transfer() or
  // finish_step().
  nlohmann::json receive_state();
  void give_state(elastic::TrainingSnapshot snapshot);
  // Before a stage that is not a step: all members have the state.
  void complete_transfer();

  // A planned change is waiting, as this replica knows; and as all replicas have agreed.
  bool sees_change();
  bool change_is_due() const { return change_due_; }
  void set_change_due() { change_due_ = true; }

  // A stage is committed. `stepped`: it was a step. `samples_per_second`: of all replicas.
  void commit(std::int64_t stage, std::int64_t step, double samples_per_second, bool stepped);
  // Training is over on all members: they stay as they are, and one that is lost now is missed.
  void make_members_final() { final_ = true; }
  bool members_are_final() const { return final_; }
  void begin_ledger(std::int64_t step);

 private:
  void attach_inner();
  std::vector<collective::ShardRange> runs() const;
  void place_state();
  void end_learning();
  void keep_buffers();
  void give_up_step();
  Deadline deadline() const { return Deadline::after(timeout_); }

  parallel::Replica& replica_;
  membership::ElasticMembership& membership_;
  std::chrono::milliseconds timeout_;
  std::optional<SyncedModel> model_;
  // Kept from view to view: fresh pages for a large model take as long as a part of a step.
  std::shared_ptr<parallel::BlockPool> gradient_blocks_ = parallel::BlockPool::of_this_process();
  std::optional<AllReduceSync> inner_;
  StateTransfer transfer_;
  StepLedger ledger_;
  bool final_ = false;
  bool change_due_ = false;
  std::optional<TensorMap> buffers_before_;  // of the step under way
  std::int64_t step_ = 0;                    // under way, or the next
  bool step_lost_ = false;                   // it was begun in an earlier view
  bool was_first_ = false;                   // in the view before
  bool changed_ = false;                     // there was an earlier view, and no step in this one
  std::chrono::steady_clock::time_point last_commit_;
  std::chrono::nanoseconds waited_before_{0};  // in earlier views
};

// What the members of a view agree on, and whether the next view is due.
class ElasticAgreement final : public Agreement {
 public:
  // Both must outlive it.
  ElasticAgreement(ElasticSync& sync, const parallel::Replica& replica,
                   std::chrono::milliseconds timeout)
      : sync_(sync), group_(replica, timeout) {}

  // Enters the job at the first call: returns when this replica belongs to a view.
  void agree(const nlohmann::json& values) override;
  std::string broadcast_text(const std::function<std::string()>& make) override {
    return group_.broadcast_text(make);
  }
  AgreedRequests agree_on_requests(const CallbackRequests& requests) override;

 private:
  ElasticSync& sync_;
  GroupAgreement group_;
  bool entered_ = false;
};

// Of an elastic job; `steps` is the ReplicaSync's own.
struct ElasticReplicaSync {
  std::unique_ptr<ReplicaSync> sync;
  ElasticSync* steps;
};
ElasticReplicaSync make_elastic_sync(const parallel::Replica& replica,
                                     std::chrono::milliseconds timeout);

}  // namespace cohort::train
