#include "cohort/ps/server/step_tally.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::ps {

namespace {

void add_row(std::vector<double>& sum, const std::vector<double>& row) {
  if (sum.size() < row.size()) sum.resize(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
}

}  // namespace

StepTally::StepTally(bool whole, int workers, int shards)
    : whole_(whole), shards_(shards), workers_(static_cast<std::size_t>(workers)) {}

StepTally::Answers StepTally::end(int number, StepEnd end) {
  Worker& worker = workers_[static_cast<std::size_t>(number)];
  const auto own = collective::shards_of(number, static_cast<int>(workers_.size()), shards_).count;
  if (!end.tally.empty() && end.tally.size() != static_cast<std::size_t>(own))
    throw ProtocolError(fmt::format("worker/{} ends step {} with {} rows, but has {} shards",
                                    number, end.sequence, end.tally.size(), own));
  if (end.sequence < worker.sequence)
    throw ProtocolError(
        fmt::format("worker/{} ends step {} after step {}", number, end.sequence, worker.sequence));
  const bool again = end.sequence == worker.sequence;
  if (again && worker.last_answered == end.sequence) return {{number, worker.last}};
  if (!again) {
    worker.sequence = end.sequence;
    worker.rows = std::move(end.tally);
    worker.round = end.round;
    if (!end.stop.empty()) stops_.try_emplace(end.round, std::move(end.stop));
  }
  worker.waiting = true;
  if (whole_) return settle(worker.sequence);
  for (const auto& row : worker.rows) add_row(total_, row);
  worker.waiting = false;
  worker.last_answered = worker.sequence;
  worker.last = {worker.sequence, false, total_, stop_of(worker.round)};
  return {{number, worker.last}};
}

StepTally::Answers StepTally::begin(int number, std::uint64_t sequence) {
  Worker& worker = workers_[static_cast<std::size_t>(number)];
  if (sequence == 0 || sequence - 1 <= worker.past) return {};
  worker.past = sequence - 1;
  Answers answers;
  for (const Worker& other : workers_) {
    if (!other.waiting || other.sequence > worker.past) continue;
    for (auto& answer : settle(other.sequence)) answers.push_back(std::move(answer));
  }
  return answers;
}

std::string StepTally::stop_of(std::uint32_t round) const {
  const auto found = stops_.find(round);
  return found == stops_.end() ? std::string() : found->second;
}

StepTally::Answers StepTally::settle(std::uint64_t sequence) {
  StepDone done{sequence, true, {}, {}};
  for (const Worker& worker : workers_) {
    if (worker.sequence == sequence) continue;
    if (worker.past < sequence) return {};
    done.whole = false;
  }
  for (const Worker& worker : workers_)
    if (worker.sequence == sequence)
      for (const auto& row : worker.rows) add_row(done.tally, row);
  Answers answers;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.sequence != sequence || !worker.waiting) continue;
    worker.waiting = false;
    worker.last_answered = sequence;
    worker.last = done;
    worker.last.stop = stop_of(worker.round);
    answers.emplace_back(static_cast<int>(i), worker.last);
  }
  return answers;
}

}  // namespace cohort::ps
