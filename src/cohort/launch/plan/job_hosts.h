#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/cluster/environment.h"
#include "cohort/cluster/task.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/plan/host_discovery.h"
#include "cohort/launch/plan/placement.h"

namespace cohort::launch {

// The hosts of an elastic job: which there are (host_discovery.h), and who runs where
// (placement.h).
//
// Confined to the loop's thread; `loop` must outlive it.
class JobHosts {
 public:
  // The slots of all hosts, and the workers that have lost theirs.
  using Changed = std::function<void(int slots, const std::vector<cluster::TaskId>& without_slot)>;

  // `changed` is called, from the loop, with the first list and whenever it is another. Throws
  // InvalidInput when the script cannot be run.
  JobHosts(const JobOptions& options, const std::string& job, cluster::Environment environment,
           EventLoop& loop, Changed changed);

  bool known() const { return known_; }  // a first list has come
  int slots() const { return placement_.slots(); }
  // This machine as the first other host sees it; where the list names no other, by the name that
  // the list has for it, or as a host beyond the default route would see it; the loopback address
  // where there is nothing of that. Hosts that come later are then left out, with a warning.
  std::string settle_address();

  std::optional<std::string> take(const cluster::TaskId& worker) { return placement_.take(worker); }
  void leave(const cluster::TaskId& worker) { placement_.leave(worker); }

  pid_t script() const { return discovery_.pid(); }  // -1 when it does not run now

 private:
  void on_list(const std::vector<Host>& hosts);
  std::vector<Host> within_reach(const std::vector<Host>& hosts);

  std::string address_;  // "" until it is settled
  Changed changed_;
  bool known_ = false;
  std::vector<Host> hosts_;
  std::set<std::string> left_out_;  // those of whom it has been said
  Placement placement_;
  HostDiscovery discovery_;
};

}  // namespace cohort::launch
