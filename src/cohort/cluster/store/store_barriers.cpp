#include "cohort/cluster/store/store_barriers.h"

#include <utility>

#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kMaxDeparted = 65536;

}  // namespace

StoreBarriers::Outcome StoreBarriers::arrive(StoreWaitId id, Arrival arrival) {
  if (arrival.count < 1)
    throw InvalidInput(fmt::format("barrier '{}' for {} members", arrival.name, arrival.count),
                       {.advice = "Give a count of at least 1."});
  auto [found, is_new] = barriers_.try_emplace(arrival.name);
  Barrier& barrier = found->second;
  if (is_new) barrier.count = arrival.count;
  if (barrier.count != arrival.count)
    throw InvalidInput(fmt::format("barrier '{}' was begun for {} members, this call says {}",
                                   arrival.name, barrier.count, arrival.count),
                       {.advice = "Call it with the same count everywhere."});
  if (!arrival.member.empty() && !barrier.names.insert(arrival.member).second)
    throw InvalidInput(
        fmt::format("'{}' waits in barrier '{}' already", arrival.member, arrival.name),
        {.advice = "Give each barrier its own name, each task its own index."});
  barrier.arrived.emplace(id, std::move(arrival.member));
  if (barrier.members.empty() && !arrival.members.empty()) {
    barrier.members.insert(arrival.members.begin(), arrival.members.end());
    for (const auto& member : barrier.members)
      if (departed_.count(member) && !barrier.names.count(member)) return fail(found, member);
  }
  Outcome outcome;
  if (static_cast<std::int64_t>(barrier.arrived.size()) < barrier.count) return outcome;
  for (const auto& [waiting, member] : barrier.arrived) outcome.released.push_back(waiting);
  barriers_.erase(found);
  return outcome;
}

std::vector<std::string> StoreBarriers::withdraw(StoreWaitId id, const std::string& name) {
  std::vector<std::string> others;
  auto found = barriers_.find(name);
  if (found == barriers_.end()) return others;
  if (auto mine = found->second.arrived.extract(id)) found->second.names.erase(mine.mapped());
  for (const auto& [waiting, member] : found->second.arrived) others.push_back(member);
  if (found->second.arrived.empty()) barriers_.erase(found);
  return others;
}

void StoreBarriers::client_connected(const std::string& identity) {
  if (identity.empty()) return;
  ++present_[identity];
  departed_.erase(identity);
}

std::vector<StoreBarriers::Outcome> StoreBarriers::client_left(StoreClientId client,
                                                               const std::string& identity) {
  bool is_gone = false;
  if (auto found = present_.find(identity); found != present_.end() && --found->second == 0) {
    present_.erase(found);
    is_gone = true;
    if (departed_.size() < kMaxDeparted) departed_.insert(identity);
  }
  std::vector<Outcome> outcomes;
  for (auto next = barriers_.begin(); next != barriers_.end();) {
    auto barrier = next++;
    auto& arrived = barrier->second.arrived;
    auto mine = arrived.lower_bound({client, 0});
    bool had_arrived = mine != arrived.end() && mine->first.client == client;
    if (!had_arrived && !(is_gone && barrier->second.members.count(identity))) continue;
    std::string who = identity.empty() ? "a member" : identity;
    if (had_arrived && !mine->second.empty()) who = mine->second;
    while (mine != arrived.end() && mine->first.client == client) mine = arrived.erase(mine);
    outcomes.push_back(fail(barrier, who));
  }
  return outcomes;
}

StoreBarriers::Outcome StoreBarriers::fail(std::map<std::string, Barrier>::iterator barrier,
                                           const std::string& who) {
  Outcome outcome;
  outcome.failure =
      fmt::format("{} left the store, so barrier '{}' cannot complete", who, barrier->first);
  for (const auto& [waiting, member] : barrier->second.arrived) outcome.released.push_back(waiting);
  barriers_.erase(barrier);
  return outcome;
}

}  // namespace cohort::cluster
