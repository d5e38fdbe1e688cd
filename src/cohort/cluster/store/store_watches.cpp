#include "cohort/cluster/store/store_watches.h"

namespace cohort::cluster {

void StoreWatches::add(StoreWaitId id, const std::string& prefix) {
  prefixes_.emplace(id, prefix);
  auto& watchers = by_prefix_[prefix];
  if (watchers.empty()) ++lengths_[prefix.size()];
  watchers.insert(id);
  ++counts_[id.client];
}

bool StoreWatches::remove(StoreWaitId id) {
  auto found = prefixes_.find(id);
  if (found == prefixes_.end()) return false;
  auto watchers = by_prefix_.find(found->second);
  watchers->second.erase(id);
  if (watchers->second.empty()) {
    auto length = lengths_.find(found->second.size());
    if (--length->second == 0) lengths_.erase(length);
    by_prefix_.erase(watchers);
  }
  auto count = counts_.find(id.client);
  if (--count->second == 0) counts_.erase(count);
  prefixes_.erase(found);
  return true;
}

void StoreWatches::remove_client(StoreClientId client) {
  while (true) {
    auto found = prefixes_.lower_bound({client, 0});
    if (found == prefixes_.end() || found->first.client != client) return;
    remove(StoreWaitId(found->first));
  }
}

std::size_t StoreWatches::count(StoreClientId client) const {
  auto found = counts_.find(client);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<StoreWaitId> StoreWatches::watching(const std::string& key) const {
  std::vector<StoreWaitId> ids;
  for (const auto& [length, prefixes] : lengths_) {
    if (length > key.size()) break;
    auto found = by_prefix_.find(key.substr(0, length));
    if (found != by_prefix_.end())
      ids.insert(ids.end(), found->second.begin(), found->second.end());
  }
  return ids;
}

}  // namespace cohort::cluster
