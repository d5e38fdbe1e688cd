#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cohort/cluster/store/store_watches.h"

namespace cohort::cluster {

// The barriers that clients wait in. A barrier exists from its first arrival until it is complete
// or fails; its name can then be used again.
// Where the members of a barrier are known by name, it fails as soon as one of them has left the
// store, whether it had arrived or not; otherwise as soon as one that had arrived leaves.
// Confined to one thread.
class StoreBarriers {
 public:
  struct Outcome {
    std::vector<StoreWaitId> released;
    std::string failure;  // empty: they met
  };
  struct Arrival {
    std::string name;
    std::string member;  // may be empty
    std::int64_t count = 0;
    std::vector<std::string> members;  // may be empty: not known
  };

  // Throws InvalidInput: a count that others do not agree with, a member that is there already.
  Outcome arrive(StoreWaitId id, Arrival arrival);
  // Takes back an arrival, say when it timed out, and tells who else had come by then.
  std::vector<std::string> withdraw(StoreWaitId id, const std::string& name);

  void client_connected(const std::string& identity);
  // The barriers that fail because this client left.
  std::vector<Outcome> client_left(StoreClientId client, const std::string& identity);

 private:
  struct Barrier {
    std::int64_t count = 0;
    std::map<StoreWaitId, std::string> arrived;
    std::set<std::string> names;    // of those who arrived, where they gave one
    std::set<std::string> members;  // whom it waits for, as the first who knew told
  };
  Outcome fail(std::map<std::string, Barrier>::iterator barrier, const std::string& who);

  std::map<std::string, Barrier> barriers_;
  std::map<std::string, int> present_;  // connections by identity
  std::set<std::string> departed_;      // identities that were here and have no connection now
};

}  // namespace cohort::cluster
