#pragma once

#include "cohort/base/net/endpoint.h"

namespace cohort {

// For a socket that is about to connect to `address`: where that is a loopback address, chooses a
// congestion control that does not pace what it sends. Nothing can be congested there, and the
// timers of one that does (bbr) cost a quarter of the speed. It has to be chosen before a
// connection begins, since pacing once switched on stays. Best effort: what the system refuses
// stays as it was.
void avoid_pacing(int socket, const SocketAddress& address) noexcept;

// The same for the connections that a listening socket will accept.
void avoid_pacing_of_accepted(int listener) noexcept;

}  // namespace cohort
