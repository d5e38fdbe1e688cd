#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/ps/state/server_state.h"

namespace cohort::ps {

// Where updates go before they count. Two kinds: a write-ahead log on disk (disk_log.h), a copy on
// another server (replica_link.h).
//
// Threads: confined to the loop of the server, on which `durable` is called. An implementation has
// threads of its own for what blocks.
// Failure: what is not durable is never reported so. A full disk or a lost replica delays: the log
// says so, tries again, and goes on when it can.
class UpdateLog {
 public:
  virtual ~UpdateLog() = default;

  // Copies or writes the record; calls `durable` when it will survive. Records become durable in
  // their order.
  virtual void append(const UpdateRecord& record, std::function<void()> durable) = 0;

  // The whole state as it is now is durable when `done` is called: at the beginning of a training,
  // and now and then so that the log stays short. Nothing is appended between the call and its
  // return; what is appended afterwards comes after the snapshot.
  virtual void save_snapshot(const ServerState& state, std::function<void()> done) = 0;

  // Whether the log has grown so long that a snapshot would pay.
  virtual bool wants_snapshot() const = 0;
};

}  // namespace cohort::ps
