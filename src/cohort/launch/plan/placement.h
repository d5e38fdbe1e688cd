#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/task.h"
#include "cohort/launch/job/hosts.h"

namespace cohort::launch {

// A host for each of `workers` workers, in order: hosts are filled one after the other; those
// without a number of slots share evenly what the others leave. Expects enough slots
// (require_slots) and at least one host.
std::vector<std::string> spread_over_hosts(const std::vector<Host>& hosts, int workers);

// Which worker of an elastic job runs on which host, while hosts come and go. A value; pure.
class Placement {
 public:
  // Every host with its slots. Returns the workers that have lost theirs: their host is gone, or
  // has fewer slots than workers (the last go).
  std::vector<cluster::TaskId> set_hosts(const std::vector<Host>& hosts);

  // A slot for this worker: on the host where it is or was last if that has one, else on the first
  // that has. Nothing when all are taken.
  std::optional<std::string> take(const cluster::TaskId& worker);
  void leave(const cluster::TaskId& worker);  // its slot is free again

  int slots() const;  // of all hosts

 private:
  int free_on(const Host& host) const;

  std::vector<Host> hosts_;
  std::map<cluster::TaskId, std::string> taken_;
  std::map<cluster::TaskId, std::string> last_;  // where a worker was
};

}  // namespace cohort::launch
