#include "cohort/launch/plan/placement.h"

#include <algorithm>

namespace cohort::launch {

using cluster::TaskId;

std::vector<std::string> spread_over_hosts(const std::vector<Host>& hosts, int workers) {
  int open = 0, rest = workers;  // hosts without a limit, and what they have to take
  for (const Host& host : hosts) {
    open += host.slots ? 0 : 1;
    rest -= host.slots.value_or(0);
  }
  std::vector<std::string> result;
  for (const Host& host : hosts) {
    int count = host.slots.value_or(0);
    if (!host.slots && rest > 0) {
      count = (rest + open - 1) / open;
      rest -= count;
      --open;
    }
    for (int i = 0; i < count && static_cast<int>(result.size()) < workers; ++i)
      result.push_back(host.name);
  }
  return result;
}

std::vector<TaskId> Placement::set_hosts(const std::vector<Host>& hosts) {
  hosts_ = hosts;
  std::map<std::string, int> free_slots;
  for (const Host& host : hosts_) free_slots[host.name] = host.slots.value_or(1);
  std::vector<TaskId> without_slot;
  for (const auto& [worker, host] : taken_)  // in order of their indices: the last go
    if (--free_slots[host] < 0) without_slot.push_back(worker);
  for (const TaskId& worker : without_slot) taken_.erase(worker);
  return without_slot;
}

int Placement::free_on(const Host& host) const {
  return host.slots.value_or(1) -
         static_cast<int>(std::count_if(taken_.begin(), taken_.end(), [&](const auto& taken) {
           return taken.second == host.name;
         }));
}

std::optional<std::string> Placement::take(const TaskId& worker) {
  taken_.erase(worker);
  const auto last = last_.find(worker);
  const Host* found = nullptr;
  for (const Host& host : hosts_) {
    if (free_on(host) < 1) continue;
    const bool was_here = last != last_.end() && last->second == host.name;
    if (!found || was_here) found = &host;
    if (was_here) break;
  }
  if (!found) return std::nullopt;
  taken_[worker] = last_[worker] = found->name;
  return found->name;
}

void Placement::leave(const TaskId& worker) { taken_.erase(worker); }

int Placement::slots() const {
  int slots = 0;
  for (const Host& host : hosts_) slots += host.slots.value_or(1);
  return slots;
}

}  // namespace cohort::launch
