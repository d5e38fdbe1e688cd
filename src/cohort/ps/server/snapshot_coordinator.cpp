#include "cohort/ps/server/snapshot_coordinator.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

// With one update a step, the last step that any worker has to have in it is that of all.
void level(std::vector<std::uint64_t>& sequences) {
  sequences.assign(sequences.size(), *std::max_element(sequences.begin(), sequences.end()));
}

}  // namespace

void SnapshotCoordinator::freeze(int worker, std::uint64_t request) {
  if (current_.worker == worker && phase_ != SnapshotPhase::sending) release(worker);
  std::erase_if(waiting_, [&](const Request& other) { return other.worker == worker; });
  waiting_.push_back({worker, request});
}

std::pair<int, Frozen> SnapshotCoordinator::begin_next(std::vector<std::uint64_t> begun) {
  COHORT_CHECK(can_begin(), "no worker waits for a copy");
  current_ = waiting_.front();
  waiting_.pop_front();
  phase_ = SnapshotPhase::frozen;
  limits_ = std::move(begun);
  if (together_) level(limits_);
  return {current_.worker, {current_.request, limits_}};
}

bool SnapshotCoordinator::request(int worker, const SnapshotRequest& wanted) {
  if (phase_ != SnapshotPhase::frozen || current_.worker != worker ||
      current_.request != wanted.request)
    return false;
  if (wanted.sequences.size() != static_cast<std::size_t>(workers_))
    throw ProtocolError(
        fmt::format("worker/{} requests a snapshot at the sequences of {} workers; there are {}",
                    worker, wanted.sequences.size(), workers_));
  for (std::size_t i = 0; i < limits_.size(); ++i)
    if (wanted.sequences[i] < limits_[i])
      throw ProtocolError(
          fmt::format("worker/{} requests a snapshot before push {} of worker/{}, which is in",
                      worker, limits_[i], i));
  limits_ = wanted.sequences;
  if (together_) level(limits_);
  phase_ = SnapshotPhase::copying;
  return true;
}

void SnapshotCoordinator::copied() {
  COHORT_CHECK(is_copy_due(), "no copy is due");
  limits_.clear();
  phase_ = SnapshotPhase::sending;
}

void SnapshotCoordinator::sent(std::uint64_t request) {
  if (phase_ != SnapshotPhase::sending || current_.request != request) return;
  current_ = {};
  phase_ = SnapshotPhase::idle;
}

void SnapshotCoordinator::release(int worker) {
  std::erase_if(waiting_, [&](const Request& other) { return other.worker == worker; });
  if (current_.worker != worker) return;
  current_ = {};
  limits_.clear();
  phase_ = SnapshotPhase::idle;
}

}  // namespace cohort::ps
