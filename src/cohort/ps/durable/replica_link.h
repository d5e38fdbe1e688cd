#pragma once

#include <functional>
#include <memory>

#include "cohort/base/deadline.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/ps/durable/replica_options.h"
#include "cohort/ps/durable/update_log.h"

namespace cohort::ps {

// A server's copy on another server, kept in step record by record: what is acknowledged is in both
// memories. Server i's copy is held by server (i + 1) % servers (replica_holder.h).
//
// At a server's start: with the listener on `loop` and a ReplicaHolder behind it,
// recover_from_replica(); then open_replica_link(); then save_snapshot() once there is a state,
// recovered or new (wants_snapshot() says so). The state given to save_snapshot() must outlive the
// link or the next call: when the holder was started anew it is read again, to make a new copy.
// Updates of tables that are prepared then are taken back for that moment and prepared again.
//
// Failure: InvalidInput where there is one server only. Nothing is durable while the copy is not
// there; after a second a warning says who is missing. When another process has taken this server's
// place the loop's run() throws Error: what this one would acknowledge is lost.
std::unique_ptr<UpdateLog> open_replica_link(EventLoop& loop, const ReplicaOptions& options);

// Asks the holder for the copy of server `options.server`, again and again until it answers: all
// servers of a job start at the same time. Gives the state, made in `memory_file`, or nothing where
// there is no copy, and puts into `options.incarnation` what a link of this process has to say;
// older links to the holder are refused from then on.
//
// Runs `loop` meanwhile: the servers of a job ask each other, so each has to answer while it waits.
// Gives up, with nothing, when `ends` is true after something that the loop did. Throws
// TimeoutError that names the holder, AuthError, Error with the holder's words.
std::unique_ptr<ServerState> recover_from_replica(EventLoop& loop, ReplicaOptions& options,
                                                  int memory_file, ServerState::Options state,
                                                  Deadline deadline,
                                                  const std::function<bool()>& ends = {});

}  // namespace cohort::ps
