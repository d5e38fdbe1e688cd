#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cohort/service/queue/queue_state.h"

namespace cohort::service {

// What would be free, and how many instances of the first in line would fit, if others gave back
// what they hold. Starts with what is free now.
class WhatIf {
 public:
  WhatIf(const NodePool& pool, const QueueEntry& first);

  bool fits() const { return fitting_ >= first_.job.least; }
  void give_back(const QueueEntry& entry, int instance) { move(entry, instance, 1); }
  void take_again(const QueueEntry& entry, int instance) { move(entry, instance, -1); }
  const std::vector<Amount>& free() const { return free_; }

 private:
  void move(const QueueEntry& entry, int instance, int sign);

  const QueueEntry& first_;
  std::vector<Amount> free_;
  std::int64_t fitting_;
};

// What is set aside for the first in line while it does not fit (queue.h, "Back-fill"). Valid until
// a job ends or the first in line changes.
class Reservation {
 public:
  Reservation(const QueueState& queue, const QueueEntry& first, QueueTime now);

  // How many instances of `job` each node takes without delay for the first in line; nothing when
  // that is not enough.
  std::optional<std::vector<std::int64_t>> room_for(const QueueEntry& job);
  // `job` was started there.
  void took(const QueueEntry& job);

 private:
  bool ends_in_time(const QueueEntry& job) const;

  const NodePool& pool_;
  QueueTime now_;
  std::optional<QueueTime> at_;
  std::vector<Amount> beside_;  // at_: free then, beside what is set aside for the first
  std::vector<Amount> kept_;    // no at_: what stays free on each node
  // By size, how many instances found no room beside the first. There is never more room later.
  std::map<Amount, int> refused_;
};

}  // namespace cohort::service
