#pragma once

#include "cohort/base/error.h"

namespace cohort::membership {

// The view of this worker has ended: what it was doing is lost, Agent::next_view() tells how to go
// on.
class ViewEnded : public PeerError {
  using PeerError::PeerError;
};

}  // namespace cohort::membership
