#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "cohort/membership/protocol/view.h"
#include "cohort/train/checkpoint/safetensors.h"
#include "cohort/train/elastic/snapshot_transfer.h"

namespace cohort::train {

// The state of a training on its way, in one view, to the members that are behind, while the others
// compute. One member gives, those that are behind take, the rest only know of it.
// Confined to the replica's thread. Ownership: a view's group must outlive the view. Failure: as
// snapshot_transfer.h.
class StateTransfer {
 public:
  // `rank`: this member's. Nothing is sent yet.
  void begin_view(collective::Group& group, const membership::View& view, int rank);
  // Waits for what is under way: abort the group before.
  void end_view();

  // The ranks that have not got the state yet, ascending.
  const std::vector<int>& learners() const { return learners_; }
  bool is_giver() const { return !learners_.empty() && rank_ == giver_; }
  bool is_awaited() const { return receiver_.has_value(); }   // here
  bool is_under_way() const { return sender_ || receiver_; }  // from or to this member

  // Of the giver. Buffers among the tensors are copied; the rest must not change before wait().
  void give(elastic::TrainingSnapshot snapshot, collective::CallOptions options);
  // Of a member that is behind: the values. `place` gets the tensors in wait(). `on_begun`: as
  // SnapshotReceiver's.
  nlohmann::json receive(collective::CallOptions options, std::function<void()> on_begun);
  void on_tensors(std::function<void(TensorMap)> place) { place_ = std::move(place); }

  // What this member sends is sent, and what it takes is in its place. True: something was put.
  bool wait();
  void set_complete() { learners_.clear(); }  // all members have the state

 private:
  collective::Group* group_ = nullptr;
  int rank_ = 0;
  int giver_ = 0;
  std::vector<int> learners_;
  std::optional<elastic::SnapshotSender> sender_;
  std::optional<elastic::SnapshotReceiver> receiver_;
  std::function<void(TensorMap)> place_;
};

}  // namespace cohort::train
