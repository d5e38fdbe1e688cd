#include "cohort/train/callbacks/fit_state.h"

#include "cohort/train/checkpoint/checkpoint.h"

namespace cohort::train {

void FitState::stop(const std::string& why) {
  if (requests_.stop.empty()) requests_.stop = why.empty() ? "a callback asked for it" : why;
}

void FitState::interrupt(const std::string& why) {
  stop(std::string(CallbackRequests::kInterrupted) + why);
}

Checkpoint FitState::checkpoint() const { return make_checkpoint_(); }

}  // namespace cohort::train
