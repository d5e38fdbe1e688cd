#pragma once

#include <memory>

#include "cohort/transport/messenger.h"
#include "cohort/transport/rendezvous.h"
#include "cohort/transport/tcp/options.h"

namespace cohort::transport::tcp {

// A Messenger over TCP; docs/wire.md has its bytes. Listens from the start, publishes its address
// as "<id>/tcp/<rank>", connects when a transfer first needs it: the higher rank to the lower. No
// thread of its own but for beats: a thread that waits on a transfer moves all of them.
// Throws InvalidInput (reachable from the network without a secret; TLS without one), SystemError,
// TimeoutError (the rendezvous).
std::unique_ptr<Messenger> make_messenger(TcpOptions options,
                                          std::shared_ptr<Rendezvous> rendezvous,
                                          Deadline deadline);

}  // namespace cohort::transport::tcp
