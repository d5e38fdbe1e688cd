#pragma once

#include <optional>
#include <vector>

#include "cohort/service/queue/queue_state.h"

namespace cohort::service {

// What is set aside for the first in line while it does not fit (queue.h, "Back-fill"). Valid until
// a job ends or the first in line changes.
class Reservation {
 public:
  Reservation(const Queue::State& queue, const QueueEntry& first, QueueTime now);

  // How many instances of `job` each node takes without delay for the first in line; nothing when
  // that is not enough.
  std::optional<std::vector<std::int64_t>> room_for(const QueueEntry& job) const;
  // `job` was started there.
  void took(const QueueEntry& job);

 private:
  bool ends_in_time(const QueueEntry& job) const;

  const NodePool& pool_;
  QueueTime now_;
  std::optional<QueueTime> at_;
  std::vector<Amount> beside_;  // at_: free then, beside what is set aside for the first
  std::vector<Amount> kept_;    // no at_: what stays free on each node
};

}  // namespace cohort::service
