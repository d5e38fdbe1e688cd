#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/process/dismissed.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/membership/protocol/view.h"
#include "cohort/membership/service/view_ended.h"

namespace cohort::membership {

class AgentLoop;

using cohort::Dismissed;

// One worker's membership in an elastic job: a Member with a thread, the store's mailboxes and a
// clock.
// It beats by itself while the worker computes, and tells it when its view is over.
//
//   agent.on_drop([&](const std::string& why) { group->abort(why); });
//   View view = agent.enter(options);
//   for (;;) { form the view's group; train; when that fails: view = agent.next_view(stage, why); }
//   agent.leave();
//
// It has a connection to the store of its own, whose end tells the coordinator of this worker's.
//
// Threads: one of its own. enter, next_view, finish and leave from one thread at a time, the rest
// from any. Ownership: `store` must outlive it.
// Failure: PeerError when the coordinator is gone (the view is dropped, and nothing more is
// committed); TimeoutError when it is there, but nothing was decided in time; InvalidInput when the
// job refuses this worker, with what differs; Dismissed.
class Agent {
 public:
  // `prefix`: the job's mailboxes in the store (mailbox.h).
  Agent(cluster::StoreClient& store, std::string prefix, MemberInfo self);
  ~Agent();  // without leave(): as if the process had died
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Called on the agent's thread, once for each view that must be dropped at once: break off its
  // collectives. Set before enter(); must not call back in.
  void on_drop(std::function<void(const std::string& why)> drop);

  // Ready to train; returns the first view with this worker. `agreement`: a JSON object that must
  // be the same on all workers.
  View enter(const std::string& agreement, Deadline deadline);

  // This worker is at rest and has committed `stage` stages. Returns the next view, newer than any
  // returned before. A worker that was shut out meanwhile comes again by itself: in the view that
  // is returned it is then a newcomer (stage kNoState). `why`: what it saw break, or empty where
  // the change was planned.
  View next_view(std::int64_t stage, const std::string& why, Deadline deadline);

  // How long a lease of this job is; 0 before the first one.
  std::chrono::nanoseconds lease() const;

  // A planned change waits for the end of a stage: its number, or 0. Never blocks.
  std::uint64_t planned_change() const noexcept;
  // Throws ViewEnded unless a stage may be committed now, in the view returned last. Waits, where
  // nothing but a late lease is missing, until it comes. Costs a look at the clock when all is
  // well.
  void expect_commit(Deadline deadline);

  // What beats tell; never blocks.
  void committed(std::int64_t stage, std::int64_t step, double samples_per_second) noexcept;
  // The first step of a view is made: what the change cost.
  void resumed(std::int64_t step, std::chrono::nanoseconds stood_still, bool redone);

  // Training is over here. True: it is everywhere. False: a change is due; call next_view().
  bool finish(std::int64_t stage, Deadline deadline);
  // Tells the coordinator, if there is one. Nothing but the destructor may follow.
  void leave(Deadline deadline);

  MemberInfo info() const;

  // For tests: what COHORT_FAULT=cut does. As if the network were gone for that long.
  void cut_off(std::chrono::milliseconds duration);

 private:
  std::unique_ptr<AgentLoop> loop_;
};

}  // namespace cohort::membership
