#pragma once

#include "cohort/base/deadline.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/cluster/session/session.h"
#include "cohort/ps/server/server.h"

namespace cohort::ps {

// Runs a parameter server in `session`'s job until every worker is done, or lost for longer than
// options.worker_timeout when all others are. A worker that was lost may come back.
//
// `keep` is what the launcher holds for this task, or null: with any durability but `none` a killed
// server is started again, also at the very end of the job. Without it durability `process` keeps
// nothing, and a warning says so. Throws what Server throws, TimeoutError at the deadline,
// PeerError when the store is lost.
void serve(cluster::Session& session, ServerOptions options, RestartState* keep, Deadline deadline);

}  // namespace cohort::ps
