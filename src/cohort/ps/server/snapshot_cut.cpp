#include "cohort/ps/server/snapshot_cut.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

// With one update a step, the last step that anybody has to have in it is everybody's.
void level(std::vector<std::uint64_t>& sequences) {
  sequences.assign(sequences.size(), *std::max_element(sequences.begin(), sequences.end()));
}

}  // namespace

void SnapshotCut::hold(int worker, std::uint64_t request) {
  if (current_.worker == worker && stage_ != Stage::sending) release(worker);
  std::erase_if(waiting_, [&](const Request& other) { return other.worker == worker; });
  waiting_.push_back({worker, request});
}

std::pair<int, Held> SnapshotCut::begin_next(std::vector<std::uint64_t> begun) {
  COHORT_CHECK(can_begin(), "nobody waits for a copy");
  current_ = waiting_.front();
  waiting_.pop_front();
  stage_ = Stage::held;
  limits_ = std::move(begun);
  if (together_) level(limits_);
  return {current_.worker, {current_.request, limits_}};
}

bool SnapshotCut::cut(int worker, const Cut& cut) {
  if (stage_ != Stage::held || current_.worker != worker || current_.request != cut.request)
    return false;
  if (cut.sequences.size() != static_cast<std::size_t>(workers_))
    throw ProtocolError(fmt::format("worker/{} cuts at the sequences of {} workers; there are {}",
                                    worker, cut.sequences.size(), workers_));
  for (std::size_t i = 0; i < limits_.size(); ++i)
    if (cut.sequences[i] < limits_[i])
      throw ProtocolError(fmt::format("worker/{} cuts before push {} of worker/{}, which is in",
                                      worker, limits_[i], i));
  limits_ = cut.sequences;
  if (together_) level(limits_);
  stage_ = Stage::cutting;
  return true;
}

void SnapshotCut::copied() {
  COHORT_CHECK(is_cutting(), "no cut is due");
  limits_.clear();
  stage_ = Stage::sending;
}

void SnapshotCut::sent(std::uint64_t request) {
  if (stage_ != Stage::sending || current_.request != request) return;
  current_ = {};
  stage_ = Stage::idle;
}

void SnapshotCut::release(int worker) {
  std::erase_if(waiting_, [&](const Request& other) { return other.worker == worker; });
  if (current_.worker != worker) return;
  current_ = {};
  limits_.clear();
  stage_ = Stage::idle;
}

}  // namespace cohort::ps
