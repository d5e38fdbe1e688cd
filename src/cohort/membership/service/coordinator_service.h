#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/cluster/address.h"
#include "cohort/membership/protocol/coordinator.h"

namespace cohort::membership {

struct CoordinatorServiceOptions {
  cluster::Address store;
  std::optional<Secret> secret;
  std::string prefix;  // of the mailboxes (mailbox.h)
  CoordinatorOptions coordinator;
  // Called on the service's thread, in order; must not call back in and not block.
  std::function<void(const MembershipEvent& event)> on_event;
};

// A Coordinator with a thread, the store's mailboxes and a clock: what `cohort run` hosts for an
// elastic job.
// Threads: one of its own; all methods from any thread. Failure: the constructor throws what
// connecting to the store throws; a store that goes away later is an event (failed).
class CoordinatorService {
 public:
  explicit CoordinatorService(CoordinatorServiceOptions options);
  ~CoordinatorService();
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  void lost(const std::string& task, int incarnation, const std::string& why);
  void resize(int members, const std::string& why);

  struct Status {
    Coordinator::Phase phase;
    View view;
    std::vector<MemberStatus> members;  // of the view, then those that wait
    int target = 0;
  };
  Status status() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// Where the members of a job and their coordinator find each other in its store; `session_prefix`
// is cluster::Session::key("membership"), "JOB/ATTEMPT/membership".
std::string mailbox_prefix(const std::string& job, int attempt);

}  // namespace cohort::membership
