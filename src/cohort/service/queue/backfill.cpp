#include "cohort/service/queue/backfill.h"

#include <algorithm>
#include <numeric>

namespace cohort::service {
namespace {

void add_times(Amount& amount, const Amount& size, std::int64_t times) {
  for (std::size_t i = 0; i < amount.size(); ++i) amount[i] += size[i] * times;
}

}  // namespace

Reservation::Reservation(const Queue::State& queue, const QueueEntry& first, QueueTime now)
    : pool_(queue.pool), now_(now) {
  std::vector<Amount> free;
  std::int64_t fitting = 0;
  for (int node = 0; node < pool_.nodes(); ++node) {
    free.push_back(pool_.free_of(node));
    fitting += times_in(free.back(), first.size);
  }
  const auto release = [&](const QueueEntry& entry, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const int node = entry.placement[static_cast<std::size_t>(i)].node;
      if (node >= pool_.nodes()) continue;
      Amount& there = free[static_cast<std::size_t>(node)];
      fitting -= times_in(there, first.size);
      add_times(there, entry.size, 1);
      fitting += times_in(there, first.size);
    }
  };

  std::map<const QueueEntry*, int> left;  // instances of elastic jobs that gave back
  for (const QueueEntry* entry : queue.givers()) {
    if (fitting >= first.job.least) break;
    release(*entry, entry->job.least, entry->held());
    left[entry] = entry->job.least;
  }
  QueueTime at = now;
  for (const auto& [end, entry] : queue.ends) {
    if (fitting >= first.job.least) break;
    const auto found = left.find(entry);
    release(*entry, 0, found == left.end() ? entry->held() : found->second);
    at = std::max(at, end.first);
  }

  if (fitting >= first.job.least) {
    at_ = at;
    std::vector<std::int64_t> room;
    for (const Amount& there : free) room.push_back(times_in(there, first.size));
    for (const auto& [node, instances] : choose_nodes(room, first.job.least))
      add_times(free[static_cast<std::size_t>(node)], first.size, -instances);
    beside_ = std::move(free);
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

std::optional<std::vector<std::int64_t>> Reservation::room_for(const QueueEntry& job) const {
  std::vector<std::int64_t> room;
  room.reserve(static_cast<std::size_t>(pool_.nodes()));
  const bool anywhere = ends_in_time(job);
  for (int node = 0; node < pool_.nodes(); ++node) {
    Amount there = pool_.free_of(node);
    for (std::size_t i = 0; i < there.size() && !anywhere; ++i) {
      const auto index = static_cast<std::size_t>(node);
      there[i] = at_ ? std::min(there[i], beside_[index][i]) : there[i] - kept_[index][i];
    }
    room.push_back(times_in(there, job.size));
  }
  if (std::accumulate(room.begin(), room.end(), std::int64_t{0}) < job.job.least)
    return std::nullopt;
  return room;
}

void Reservation::took(const QueueEntry& job) {
  if (!at_ || ends_in_time(job)) return;
  for (const Placed& placed : job.placement)
    add_times(beside_[static_cast<std::size_t>(placed.node)], job.size, -1);
}

}  // namespace cohort::service
