#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/collective/world.h"
#include "cohort/membership/protocol/view.h"
#include "cohort/membership/service/agent.h"

namespace cohort::membership {

// This worker's membership of an elastic job: its Agent, the view that it belongs to, and the group
// of that view's members. There is no group before enter(): workers come and go, so a group is only
// for those that train.
//
//   elastic.enter(agreement, deadline);
//   for (;;)
//     try { train over elastic.group(); }
//     catch (const Error&) { elastic.change(stage, why, ...); }
//
// Threads: from the worker's thread, rank(), size() and abort() from any; the group is aborted from
// the agent's. Ownership: `session` must outlive it. References to group() end with change(), which
// waits for what is under way in it.
// Failure: as Agent; a group that cannot be formed because a member is lost meanwhile is tried
// again with the next view, until the deadline.
class ElasticMembership {
 public:
  ElasticMembership(cluster::Session& session, const collective::NetworkOptions& network,
                    MemberInfo self, cluster::ElasticLimits limits);
  ~ElasticMembership();
  ElasticMembership(const ElasticMembership&) = delete;
  ElasticMembership& operator=(const ElasticMembership&) = delete;

  const cluster::ElasticLimits& limits() const;
  const cluster::Role& role() const;
  Agent& agent();

  // Waits for the first view with this worker and forms its group; `agreement` as Agent's.
  void enter(const std::string& agreement, Deadline deadline);
  // This worker is at rest with `stage` stages committed: gives the group up, waits for the next
  // view and forms its group. `why`: what broke; empty: a planned change.
  void change(std::int64_t stage, const std::string& why, Deadline deadline);

  bool is_member() const;  // enter() has returned
  const View& view() const;
  int rank() const;
  int size() const;
  collective::Group& group() const;  // InvalidInput before enter() and after leave()

  // Breaks the group of the view, if there is one, for all its members: this worker stops.
  void abort(const std::string& why) noexcept;

  void leave(Deadline deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::membership
