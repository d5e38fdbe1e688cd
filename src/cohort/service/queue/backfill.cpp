#include "cohort/service/queue/backfill.h"

#include <algorithm>
#include <numeric>

namespace cohort::service {
namespace {

void add_times(Amount& amount, const Amount& size, std::int64_t times) {
  for (std::size_t i = 0; i < amount.size(); ++i) amount[i] += size[i] * times;
}

}  // namespace

WhatIf::WhatIf(const NodePool& pool, const QueueEntry& first)
    : first_(first), fitting_(pool.fitting(first.size)) {
  free_.reserve(static_cast<std::size_t>(pool.nodes()));
  for (int node = 0; node < pool.nodes(); ++node) free_.push_back(pool.free_of(node));
}

void WhatIf::move(const QueueEntry& entry, int instance, int sign) {
  const auto node =
      static_cast<std::size_t>(entry.placement[static_cast<std::size_t>(instance)].node);
  if (node >= free_.size()) return;
  fitting_ -= times_in(free_[node], first_.size);
  add_times(free_[node], entry.size, sign);
  fitting_ += times_in(free_[node], first_.size);
}

Reservation::Reservation(const QueueState& queue, const QueueEntry& first, QueueTime now)
    : pool_(queue.pool), now_(now) {
  WhatIf then(pool_, first);
  std::map<const QueueEntry*, int> left;  // instances of elastic jobs that gave back
  for (const QueueEntry* entry : queue.givers()) {
    if (then.fits()) break;
    for (int i = entry->job.least; i < entry->held(); ++i) then.give_back(*entry, i);
    left[entry] = entry->job.least;
  }
  QueueTime at = now;
  for (const auto& [end, entry] : queue.ends) {
    if (then.fits()) break;
    const auto found = left.find(entry);
    const int held = found == left.end() ? entry->held() : found->second;
    for (int i = 0; i < held; ++i) then.give_back(*entry, i);
    at = std::max(at, end.first);
  }

  if (then.fits()) {
    at_ = at;
    beside_ = then.free();
    std::vector<std::int64_t> room;
    room.reserve(beside_.size());
    for (const Amount& there : beside_) room.push_back(times_in(there, first.size));
    for (const auto& [node, instances] : choose_nodes(room, first.job.least))
      add_times(beside_[static_cast<std::size_t>(node)], first.size, -instances);
  } else {
    for (int node = 0; node < pool_.nodes(); ++node) {
      Amount kept{};
      add_times(kept, first.size,
                std::min<std::int64_t>(times_in(pool_.size_of(node), first.size), first.job.least));
      kept_.push_back(kept);
    }
  }
}

bool Reservation::ends_in_time(const QueueEntry& job) const {
  return at_ && job.job.max_run > 0 && now_ + job.job.max_run <= *at_;
}

std::optional<std::vector<std::int64_t>> Reservation::room_for(const QueueEntry& job) {
  const bool anywhere = ends_in_time(job);
  const auto refused = refused_.find(job.size);
  if (!anywhere && refused != refused_.end() && job.job.least >= refused->second)
    return std::nullopt;
  std::vector<std::int64_t> room;
  room.reserve(static_cast<std::size_t>(pool_.nodes()));
  for (int node = 0; node < pool_.nodes(); ++node) {
    const auto index = static_cast<std::size_t>(node);
    const Amount& free = pool_.free_of(node);
    std::int64_t times = times_in(free, job.size);
    if (times > 0 && !anywhere) {
      Amount there = free;
      for (std::size_t i = 0; i < there.size(); ++i)
        there[i] = at_ ? std::min(free[i], beside_[index][i]) : free[i] - kept_[index][i];
      times = times_in(there, job.size);
    }
    room.push_back(times);
  }
  if (std::accumulate(room.begin(), room.end(), std::int64_t{0}) < job.job.least) {
    refused_[job.size] = job.job.least;
    return std::nullopt;
  }
  return room;
}

void Reservation::took(const QueueEntry& job) {
  if (!at_ || ends_in_time(job)) return;
  for (const Placed& placed : job.placement)
    add_times(beside_[static_cast<std::size_t>(placed.node)], job.size, -1);
}

}  // namespace cohort::service
