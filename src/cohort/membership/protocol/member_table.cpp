#include "cohort/membership/protocol/member_table.h"

#include <algorithm>
#include <utility>

namespace cohort::membership {
namespace {

// Clocks of two hosts do not run equally fast: leases end here a little later than they must.
Time held(Time lease) { return lease + lease / 20; }

}  // namespace

MemberEntry* MemberTable::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.get();
}

std::vector<MemberEntry*> MemberTable::runs_of(const std::string& task) const {
  std::vector<MemberEntry*> runs;
  const auto [first, last] = by_task_.equal_range(task);
  for (auto run = first; run != last; ++run) runs.push_back(run->second);
  return runs;
}

void MemberTable::add(Time now, const MemberInfo& info) {
  auto entry = std::make_unique<MemberEntry>();
  entry->id = info.id();
  entry->status.info = info;
  entry->status.last_heard = now;
  entry->arrival = ++arrivals_;
  entry->lease = leases_.give(now + held(lease_), entry.get());
  waiting_.emplace(entry->arrival, entry.get());
  by_task_.emplace(info.task, entry.get());
  entries_.emplace(entry->id, std::move(entry));
}

std::optional<std::string> MemberTable::disagreement(const std::string& agreement) {
  if (entries_.empty() || !agreement_) agreement_ = agreement;
  return *agreement_ == agreement ? std::nullopt : agreement_;
}

void MemberTable::renew(MemberEntry& entry, Time now) {
  leases_.renew(entry.lease, now + held(lease_));
}

std::vector<MemberEntry*> MemberTable::expired(Time now) {
  const Leases::Lease* first = leases_.first();
  if (first == nullptr || first->end > now) return {};
  // Beats may lie unread. A coordinator that comes late was itself not there, and has many to read.
  if (!grace_ || grace_->noticed < first->end) {
    const bool late = now - first->end > lease_ / 40;
    grace_ = Grace{.noticed = now, .end = now + lease_ / (late ? 4 : 40)};
  }
  if (now < grace_->end) return {};
  std::vector<MemberEntry*> ended;
  for (const Leases::Lease& lease : leases_.all()) {
    if (lease.end > grace_->noticed) break;
    ended.push_back(static_cast<MemberEntry*>(lease.holder));
  }
  return ended;
}

std::optional<Time> MemberTable::next_expiry() const {
  const Leases::Lease* first = leases_.first();
  if (first == nullptr) return std::nullopt;
  return grace_ && first->end <= grace_->noticed ? grace_->end : first->end;
}

void MemberTable::remove(MemberEntry& entry, Gone gone) {
  waiting_.erase(entry.arrival);
  const auto [first, last] = by_task_.equal_range(entry.status.info.task);
  by_task_.erase(std::find_if(first, last, [&](const auto& at) { return at.second == &entry; }));
  leases_.remove(entry.lease);
  gone_[entry.id] = std::move(gone);
  entries_.erase(std::string(entry.id));
}

const MemberTable::Gone* MemberTable::find_gone(const std::string& id) const {
  const auto found = gone_.find(id);
  return found == gone_.end() ? nullptr : &found->second;
}

void MemberTable::mark_dead(const std::string& task, int incarnation) {
  int& dead = dead_.try_emplace(task, incarnation).first->second;
  dead = std::max(dead, incarnation);
}

bool MemberTable::is_dead(const MemberInfo& info) const {
  const auto dead = dead_.find(info.task);
  return dead != dead_.end() && info.incarnation <= dead->second;
}

}  // namespace cohort::membership
