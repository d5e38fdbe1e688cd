#include "cohort/service/queue/queue.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "cohort/base/error.h"
#include "cohort/service/queue/backfill.h"
#include "cohort/service/queue/queue_state.h"

namespace cohort::service {
namespace {

double dominant_share(const Amount& size, const Amount& total) {
  double share = 0;
  for (std::size_t i = 0; i < size.size(); ++i)
    if (total[i] > 0)
      share = std::max(share, static_cast<double>(size[i]) / static_cast<double>(total[i]));
  return share;
}

// An elastic job and the instances that it is to keep.
using Keep = std::pair<QueueEntry*, int>;

// What elastic jobs are to keep so that `first` fits; empty where that does not help, or is under
// way.
std::vector<Keep> give_back_for(const QueueEntry& first, const QueueState& queue) {
  WhatIf then(queue.pool, first);
  const std::vector<QueueEntry*> givers = queue.givers();
  for (const QueueEntry* entry : givers)
    for (int i = entry->asked; i < entry->held(); ++i) then.give_back(*entry, i);
  if (then.fits()) return {};
  std::vector<Keep> keep;
  for (QueueEntry* entry : givers) {
    keep.emplace_back(entry, entry->asked);
    for (int& count = keep.back().second; count > entry->job.least && !then.fits(); --count)
      then.give_back(*entry, count - 1);
  }
  if (!then.fits()) return {};
  // The last ones that a job gave may be of no use: they were on other nodes.
  for (auto& [entry, count] : keep)
    for (; count < entry->asked; ++count) {
      then.take_again(*entry, count);
      if (then.fits()) continue;
      then.give_back(*entry, count);
      break;
    }
  std::erase_if(keep, [](const auto& item) { return item.second == item.first->asked; });
  return keep;
}

void decide_starts(QueueState& queue, QueueTime now, Decision& decision) {
  std::vector<QueueEntry*> started;
  const auto begin = [&](QueueEntry& entry, std::vector<Placed> placement) {
    decision.starts.push_back({entry.job.id, placement});
    queue.start(entry, std::move(placement), now, now);
    started.push_back(&entry);
  };
  QueueEntry* first = nullptr;
  std::optional<Reservation> reservation;
  int looked_at = 0;
  queue.walk(now, [&](QueueEntry& entry) {
    const std::int64_t fitting = queue.pool.fitting(entry.size);
    const bool alone = queue.in_line - static_cast<int>(started.size()) == 1;
    if (fitting < entry.job.least) {
      if (!first) first = &entry;
    } else if (!first) {
      const int count =
          alone ? static_cast<int>(std::min<std::int64_t>(entry.limit, fitting)) : entry.job.least;
      begin(entry, queue.pool.take(entry.size, count));
    } else {
      if (!reservation) reservation.emplace(queue, *first, now);
      if (const auto room = reservation->room_for(entry)) {
        begin(entry, queue.pool.take(entry.size, entry.job.least, *room));
        reservation->took(entry);
      }
    }
    return !first || (queue.pool.something_fits() && ++looked_at <= Queue::kBackfillDepth);
  });
  for (QueueEntry* entry : started) queue.leave_line(*entry);
  if (first)
    for (const auto& [entry, keep] : give_back_for(*first, queue))
      queue.ask(*entry, keep, decision);
}

void grow(QueueState& queue, QueueTime now, Decision& decision) {
  std::map<std::string, QueueEntry*> grown;
  while (true) {
    QueueEntry* next = nullptr;
    double least = 1;
    for (auto& [id, entry] : queue.elastic) {
      const double part = static_cast<double>(entry->held() - entry->job.least) /
                          static_cast<double>(entry->job.most - entry->job.least);
      if (entry->asked == entry->held() && entry->held() < entry->limit && part < least &&
          queue.pool.fitting(entry->size) > 0) {
        next = entry;
        least = part;
      }
    }
    if (!next) break;
    queue.hold(*next, queue.pool.take(next->size, 1), now);
    grown.emplace(next->job.id, next);
  }
  for (auto& [id, entry] : grown) {
    const auto begun = std::find_if(decision.starts.begin(), decision.starts.end(),
                                    [&](const QueueStart& start) { return start.id == id; });
    if (begun != decision.starts.end())
      begun->placement = entry->placement;
    else
      decision.scales.push_back({id, entry->asked, entry->placement});
  }
}

}  // namespace

Queue::Queue(const std::vector<jobspec::Size>& nodes, QueueTime half_life)
    : state_(std::make_unique<QueueState>(nodes, half_life)) {}

Queue::~Queue() = default;

namespace {

std::unique_ptr<QueueEntry> entry_of(const QueueJob& job, const NodePool& pool) {
  COHORT_CHECK(1 <= job.least && job.least <= job.most, "{} to {} instances", job.least, job.most);
  auto entry = std::make_unique<QueueEntry>();
  entry->job = job;
  entry->limit = job.most;
  entry->size = amount_of(job.instance);
  entry->share = dominant_share(entry->size, pool.total());
  return entry;
}

}  // namespace

void Queue::add(const QueueJob& job, QueueTime) {
  auto entry = entry_of(job, state_->pool);
  if (state_->pool.fitting_when_empty(entry->size) >= job.least) {
    entry->in_line = true;
    state_->waiting[job.priority][job.user].emplace(job.id, entry.get());
    ++state_->in_line;
    state_->pool.use_size(entry->size);
  } else {
    state_->impossible.emplace(job.id, entry.get());
  }
  const bool is_new = state_->entries.emplace(job.id, std::move(entry)).second;
  COHORT_CHECK(is_new, "job {} is in the queue already", job.id);
}

void Queue::add_running(const QueueJob& job, const std::vector<Placed>& placement,
                        QueueTime started, QueueTime now) {
  auto entry = entry_of(job, state_->pool);
  state_->pool.take_placed(entry->size, placement);
  state_->start(*entry, placement, started, now);
  const bool is_new = state_->entries.emplace(job.id, std::move(entry)).second;
  COHORT_CHECK(is_new, "job {} is in the queue already", job.id);
}

void Queue::remember(std::string_view user, const jobspec::Size& instance, int instances,
                     QueueTime from, QueueTime to, QueueTime now) {
  const double share = dominant_share(amount_of(instance), state_->pool.total()) * instances;
  state_->shares.remember(user, share, from, to, now);
}

bool Queue::contains(std::string_view id) const { return state_->entries.contains(id); }

void Queue::remove(std::string_view id, QueueTime now) {
  const auto found = state_->entries.find(id);
  if (found == state_->entries.end()) return;
  QueueEntry& entry = *found->second;
  if (entry.in_line) state_->leave_line(entry);
  state_->impossible.erase(entry.job.id);
  if (state_->running.erase(entry.job.id) > 0) {
    state_->give_back_last(entry, 0, now);
    state_->ends.erase({entry.started + entry.job.max_run, entry.job.id});
    if (state_->elastic.erase(entry.job.id) > 0) state_->pool.release_size(entry.size);
  }
  state_->entries.erase(found);
}

void Queue::set_most(std::string_view id, int most) {
  const auto found = state_->entries.find(id);
  if (found == state_->entries.end() || !found->second->elastic()) return;
  QueueEntry& entry = *found->second;
  entry.limit = std::clamp(most, entry.job.least, entry.job.most);
}

void Queue::returned(std::string_view id, QueueTime now) {
  const auto found = state_->entries.find(id);
  if (found == state_->entries.end() || found->second->asked >= found->second->held()) return;
  state_->give_back_last(*found->second, found->second->asked, now);
}

Decision Queue::decide(QueueTime now) {
  Decision decision;
  decide_starts(*state_, now, decision);
  if (state_->in_line == 0) grow(*state_, now, decision);
  for (auto& [id, entry] : state_->elastic)
    if (entry->asked > entry->limit) state_->ask(*entry, entry->limit, decision);
  return decision;
}

std::vector<std::string> Queue::line(int count, QueueTime now) const {
  std::vector<std::string> ids;
  state_->walk(now, [&](const QueueEntry& entry) {
    ids.push_back(entry.job.id);
    return static_cast<int>(ids.size()) < count;
  });
  return ids;
}

jobspec::Size Queue::free() const {
  const Amount& free = state_->pool.total_free();
  return {.cores = static_cast<double>(std::max<std::int64_t>(free[0], 0)) / 1000,
          .memory_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(free[1], 0)),
          .gpus = static_cast<int>(std::max<std::int64_t>(free[2], 0))};
}

}  // namespace cohort::service
