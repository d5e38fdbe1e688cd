#pragma once

#include "cohort/ps/state/server_state.h"
#include "cohort/ps/state/update_record.h"

namespace cohort::ps {

// Makes an update again that a log or a server's primary recorded. False: it is in already. Throws
// ProtocolError when updates before it are missing, and what ServerState::prepare throws.
bool replay(ServerState& state, const UpdateRecord& record);

}  // namespace cohort::ps
