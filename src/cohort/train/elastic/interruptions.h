#pragma once

#include <exception>

#include "cohort/base/error.h"

// What ends the work of a view, as Trainer::fit() and elastic::run() both see it.
namespace cohort::elastic {

// Members are about to come or go, and nothing is lost. Thrown by State::commit and
// check_host_updates on all workers alike; caught by run(). Let it pass.
class MembersChange : public Error {
  using Error::Error;
};

// Whether this error only says that a peer was lost, so that the same work can be done again with
// the members of the next view: PeerError (membership::ViewEnded among them), TimeoutError,
// collective::MismatchError, and ProtocolError: a peer that sends what the protocol does not allow
// is as lost as one that is silent. Anything else is the program's own failure.
bool is_peer_loss(const std::exception& error);

}  // namespace cohort::elastic
