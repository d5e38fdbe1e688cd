#include "cohort/service/queue/queue_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

namespace cohort::service {

void QueueState::walk(QueueTime now, const std::function<bool(QueueEntry&)>& visit) const {
  struct Place {
    double standing;
    Line::const_iterator next;
    Line::const_iterator end;
    double* counted;  // of the user
  };
  std::map<std::string_view, double> counted;
  std::vector<Place> places;
  const auto later = [](const Place& a, const Place& b) {
    return std::tie(a.standing, a.next->first) > std::tie(b.standing, b.next->first);
  };
  for (const auto& [priority, users] : waiting) {
    places.clear();
    for (const auto& [user, line] : users) {
      const auto [found, is_new] = counted.try_emplace(user);
      if (is_new) found->second = shares.standing(user, now);
      places.push_back({found->second, line.begin(), line.end(), &found->second});
    }
    std::make_heap(places.begin(), places.end(), later);
    while (!places.empty()) {
      std::pop_heap(places.begin(), places.end(), later);
      Place& place = places.back();
      QueueEntry& entry = *place.next->second;
      *place.counted += entry.share * entry.job.least;
      place.standing = *place.counted;
      if (++place.next == place.end)
        places.pop_back();
      else
        std::push_heap(places.begin(), places.end(), later);
      if (!visit(entry)) return;
    }
  }
}

void QueueState::leave_line(QueueEntry& entry) {
  const auto priority = waiting.find(entry.job.priority);
  const auto user = priority->second.find(entry.job.user);
  user->second.erase(entry.job.id);
  if (user->second.empty()) priority->second.erase(user);
  if (priority->second.empty()) waiting.erase(priority);
  entry.in_line = false;
  --in_line;
  pool.release_size(entry.size);
}

void QueueState::start(QueueEntry& entry, std::vector<Placed> placement, QueueTime started,
                       QueueTime now) {
  entry.started = started;
  running.emplace(entry.job.id, &entry);
  hold(entry, std::move(placement), now);
  if (entry.job.max_run > 0)
    ends.emplace(std::pair(started + entry.job.max_run, entry.job.id), &entry);
  if (entry.elastic()) {
    elastic.emplace(entry.job.id, &entry);
    pool.use_size(entry.size);
  }
}

void QueueState::hold(QueueEntry& entry, std::vector<Placed> placement, QueueTime now) {
  shares.hold(entry.job.user, entry.share * static_cast<double>(placement.size()), now);
  std::move(placement.begin(), placement.end(), std::back_inserter(entry.placement));
  entry.asked = entry.held();
}

void QueueState::give_back_last(QueueEntry& entry, int keep, QueueTime now) {
  const std::vector<Placed> last(entry.placement.begin() + keep, entry.placement.end());
  pool.give_back(entry.size, last);
  shares.hold(entry.job.user, -entry.share * static_cast<double>(last.size()), now);
  entry.placement.resize(static_cast<std::size_t>(keep));
}

std::vector<QueueEntry*> QueueState::givers() const {
  std::vector<QueueEntry*> givers;
  for (const auto& [id, entry] : elastic)
    if (entry->held() > entry->job.least) givers.push_back(entry);
  std::stable_sort(givers.begin(), givers.end(), [](const QueueEntry* a, const QueueEntry* b) {
    return std::make_tuple(a->job.priority, b->held() - b->job.least) <
           std::make_tuple(b->job.priority, a->held() - a->job.least);
  });
  return givers;
}

void QueueState::ask(QueueEntry& entry, int keep, Decision& decision) {
  entry.asked = keep;
  decision.scales.push_back(
      {entry.job.id, keep, {entry.placement.begin(), entry.placement.begin() + keep}});
}

}  // namespace cohort::service
