#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace cohort::cluster {

using StoreClientId = std::uint64_t;

// One request of one client that is still to be answered.
struct StoreWaitId {
  StoreClientId client = 0;
  std::uint64_t request = 0;

  auto operator<=>(const StoreWaitId&) const = default;
};

// Who watches which prefix. Finding the watchers of a key takes one look-up for each length that
// some prefix has, however many watches there are. Confined to one thread.
class StoreWatches {
 public:
  void add(StoreWaitId id, const std::string& prefix);
  bool remove(StoreWaitId id);  // false: there was none
  void remove_client(StoreClientId client);
  std::size_t count(StoreClientId client) const;
  std::vector<StoreWaitId> watching(const std::string& key) const;

 private:
  std::map<StoreWaitId, std::string> prefixes_;
  std::unordered_map<std::string, std::set<StoreWaitId>> by_prefix_;
  std::map<std::size_t, std::size_t> lengths_;  // length -> number of distinct prefixes
  std::unordered_map<StoreClientId, std::size_t> counts_;
};

}  // namespace cohort::cluster
