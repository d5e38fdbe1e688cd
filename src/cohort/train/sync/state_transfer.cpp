#include "cohort/train/sync/state_transfer.h"

#include <utility>

namespace cohort::train {

void StateTransfer::begin_view(collective::Group& group, const membership::View& view, int rank) {
  group_ = &group;
  rank_ = rank;
  giver_ = view.donor();
  learners_ = view.behind();
}

void StateTransfer::end_view() {
  sender_.reset();
  receiver_.reset();
  place_ = {};
  learners_.clear();
  group_ = nullptr;
}

void StateTransfer::give(elastic::TrainingSnapshot snapshot, collective::CallOptions options) {
  sender_.emplace(*group_, learners_, std::move(snapshot), options);
}

nlohmann::json StateTransfer::receive(collective::CallOptions options,
                                      std::function<void()> on_begun) {
  receiver_.emplace(*group_, giver_, options, std::move(on_begun));
  return receiver_->values();
}

bool StateTransfer::wait() {
  if (sender_) {
    sender_->wait();
    sender_.reset();
  }
  if (!receiver_) return false;
  TensorMap tensors = receiver_->take();
  receiver_.reset();
  std::exchange(place_, {})(std::move(tensors));
  return true;
}

}  // namespace cohort::train
