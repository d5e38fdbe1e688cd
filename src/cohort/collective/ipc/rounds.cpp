#include "cohort/collective/ipc/rounds.h"

#include "cohort/base/error.h"

namespace cohort::collective::ipc {

namespace {

using Kind = CudaDriver::WordStep::Kind;

void wait_and_clear(std::vector<CudaDriver::WordStep>& steps, CudaDriver::Address word) {
  steps.push_back({Kind::wait, word, SharedBlock::kSignal});
  steps.push_back({Kind::write, word, 0});
}

}  // namespace

void Rounds::begin() {
  steps_.clear();
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (peer != endpoint_.rank())
      wait_and_clear(steps_, endpoint_.word(endpoint_.rank(), WordSet::done, peer));
  endpoint_.driver().run(steps_, stream_);
}

CudaDriver::Address Rounds::own_slot() const {
  return endpoint_.slot(endpoint_.rank(), rounds_ % 2);
}

void Rounds::meet(const std::function<bool(int)>& takes_part) {
  const WordSet set = rounds_ % 2 == 0 ? WordSet::even : WordSet::odd;
  const int self = endpoint_.rank();
  const auto for_each = [&](auto&& action) {
    for (int peer = 0; peer < endpoint_.size(); ++peer)
      if (peer != self && (rounds_ == 0 || !takes_part || takes_part(peer))) action(peer);
  };
  steps_.clear();
  for_each([&](int peer) {
    steps_.push_back({Kind::write, endpoint_.word(peer, set, self), SharedBlock::kSignal});
  });
  for_each([&](int peer) { wait_and_clear(steps_, endpoint_.word(self, set, peer)); });
  endpoint_.driver().run(steps_, stream_);
  ++rounds_;
}

CudaDriver::Address Rounds::slot_of(int peer) const {
  return endpoint_.slot(peer, (rounds_ + 1) % 2);
}

void Rounds::end() {
  COHORT_CHECK(rounds_ > 0, "a call on a GPU without a round");
  steps_.clear();
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (peer != endpoint_.rank())
      steps_.push_back({Kind::write, endpoint_.word(peer, WordSet::done, endpoint_.rank()),
                        SharedBlock::kSignal});
  endpoint_.driver().run(steps_, stream_);
}

}  // namespace cohort::collective::ipc
