#pragma once

#include "cohort/base/deadline.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/client/server_links.h"

namespace cohort::ps {

// A consistent copy of everything that the servers have, as of one instant: all servers freeze and
// say how far they are, and then copy at the furthest of those points (messages.h). Begins anew
// when a server is lost. Failure: as Client::snapshot().
void copy_state(ServerLinks& links, const StateSink& sink, Deadline deadline);

}  // namespace cohort::ps
