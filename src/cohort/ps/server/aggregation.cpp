#include "cohort/ps/server/aggregation.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

bool contains(std::span<const int> workers, int worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

}  // namespace

AggregationRules AggregationRules::of(const Policy& policy, int workers) {
  if (policy.mode != Policy::Mode::sync) return {false, workers, 1};
  const bool all = policy.aggregate <= 0 || policy.aggregate > workers;
  return {true, workers, all ? workers : policy.aggregate};
}

Aggregation::Aggregation(AggregationRules rules, std::uint64_t version,
                         std::vector<std::uint64_t> ledger)
    : rules_(rules), version_(version), ledger_(std::move(ledger)) {
  COHORT_CHECK(ledger_.size() == static_cast<std::size_t>(rules_.workers),
               "a ledger of {} workers for {}", ledger_.size(), rules_.workers);
}

std::uint64_t Aggregation::settled(int worker) const {
  const std::uint64_t in = ledger_[static_cast<std::size_t>(worker)];
  return rules_.together ? std::max(in, version_) : in;
}

bool Aggregation::has_from(int worker) const {
  const auto is_its = [&](const Contribution& other) { return other.worker == worker; };
  return std::any_of(queue_.begin(), queue_.end(), is_its) ||
         std::any_of(taken_.begin(), taken_.end(), is_its);
}

Aggregation::Arrival Aggregation::offer(Contribution contribution) {
  const int worker = contribution.worker;
  const std::uint64_t sequence = contribution.sequence;
  COHORT_CHECK(worker >= 0 && worker < rules_.workers, "worker/{} of {}", worker, rules_.workers);
  if (sequence <= ledger_[static_cast<std::size_t>(worker)]) return Arrival::applied;
  const auto is_same = [&](const Contribution& other) {
    return other.worker == worker && other.sequence == sequence;
  };
  if (std::any_of(taken_.begin(), taken_.end(), is_same) ||
      std::any_of(queue_.begin(), queue_.end(), is_same))
    return Arrival::waits;
  if (sequence <= settled(worker)) return Arrival::late;
  if (has_from(worker))
    throw ProtocolError(
        fmt::format("worker/{} pushes sequence {} while an earlier push of its is not answered",
                    worker, sequence));
  if (sequence != settled(worker) + 1)
    throw ProtocolError(fmt::format("worker/{} pushes sequence {}, but {} comes next", worker,
                                    sequence, settled(worker) + 1));
  queue_.push_back(std::move(contribution));
  return Arrival::queued;
}

std::span<const Contribution> Aggregation::take(std::span<const std::uint64_t> limits) {
  if (is_busy()) return {};
  const auto may = [&](const Contribution& next) {
    return limits.empty() || next.sequence <= limits[static_cast<std::size_t>(next.worker)];
  };
  const auto wanted = static_cast<std::size_t>(rules_.required);
  if (static_cast<std::size_t>(std::count_if(queue_.begin(), queue_.end(), may)) < wanted)
    return {};
  for (auto it = queue_.begin(); taken_.size() < wanted;) {
    if (may(*it)) {
      taken_.push_back(std::move(*it));
      it = queue_.erase(it);
    } else {
      ++it;
    }
  }
  std::sort(taken_.begin(), taken_.end(), [](const Contribution& left, const Contribution& right) {
    return left.worker < right.worker;
  });
  return taken_;
}

std::vector<Settled> Aggregation::commit(std::span<const int> dropped) {
  COHORT_CHECK(is_busy(), "no update is being made");
  ++version_;
  std::vector<Settled> answers;
  for (const Contribution& used : taken_) {
    ledger_[static_cast<std::size_t>(used.worker)] = used.sequence;
    answers.push_back({used.worker, used.sequence,
                       contains(dropped, used.worker) ? Values::Reason::dropped_not_finite
                                                      : Values::Reason::applied});
  }
  taken_.clear();
  if (!rules_.together) return answers;
  std::erase_if(queue_, [&](const Contribution& waiting) {
    if (waiting.sequence > version_) return false;
    answers.push_back({waiting.worker, waiting.sequence, Values::Reason::dropped_late});
    return true;
  });
  return answers;
}

void Aggregation::refuse(std::span<const int> workers) {
  COHORT_CHECK(is_busy(), "no update is being made");
  for (auto it = taken_.rbegin(); it != taken_.rend(); ++it)
    if (!contains(workers, it->worker)) queue_.push_front(std::move(*it));
  taken_.clear();
}

}  // namespace cohort::ps
