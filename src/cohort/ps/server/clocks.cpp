#include "cohort/ps/server/clocks.h"

#include <fmt/core.h>

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::ps {

Clocks::Clocks(const Policy& policy, int workers,
               const std::vector<std::vector<std::uint64_t>>& settled, Time now)
    : policy_(policy),
      targets_(static_cast<int>(settled.size())),
      workers_(static_cast<std::size_t>(workers)) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.away_since = now;
    worker.finished = kForever;
    for (const auto& target : settled) worker.finished = std::min(worker.finished, target[i]);
    worker.ahead =
        static_cast<int>(std::count_if(settled.begin(), settled.end(), [&](const auto& target) {
          return target[i] > worker.finished;
        }));
  }
}

bool Clocks::settle(int number, std::uint64_t sequence) {
  Worker& worker = of(number);
  if (sequence <= worker.finished) return false;
  COHORT_CHECK(sequence == worker.finished + 1, "worker/{} settled {} after {}", number, sequence,
               worker.finished);
  if (++worker.ahead < targets_) return false;
  ++worker.finished;
  worker.ahead = 0;
  expect_if_level(worker);
  return true;
}

void Clocks::expect_if_level(Worker& worker) {
  if (!worker.expected && worker.here && !worker.left && worker.finished >= slowest())
    worker.expected = true;
}

std::uint64_t Clocks::slowest() const {
  std::uint64_t least = kForever;
  for (const Worker& worker : workers_)
    if (worker.expected) least = std::min(least, worker.finished);
  return least;
}

bool Clocks::allows(std::uint64_t sequence) const {
  if (policy_.mode != Policy::Mode::bounded || policy_.staleness < 0) return true;
  const auto staleness = static_cast<std::uint64_t>(policy_.staleness);
  return sequence <= 1 || sequence - 1 <= staleness || slowest() >= sequence - 1 - staleness;
}

void Clocks::came(int number) {
  Worker& worker = of(number);
  worker.here = true;
  worker.left = false;
  worker.given_up = false;
  if (slowest() == kForever) worker.expected = true;
  expect_if_level(worker);
}

void Clocks::lost(int number, Time now) {
  Worker& worker = of(number);
  worker.here = false;
  worker.away_since = now;
}

void Clocks::left(int number) {
  Worker& worker = of(number);
  worker.left = true;
  worker.expected = false;
}

std::vector<int> Clocks::give_up(Time now, std::chrono::milliseconds patience) {
  std::vector<int> gone;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.here || worker.left || worker.given_up || now < worker.away_since + patience)
      continue;
    worker.given_up = true;
    worker.expected = false;
    gone.push_back(static_cast<int>(i));
  }
  return gone;
}

Clocks::Time Clocks::next_give_up(std::chrono::milliseconds patience) const {
  Time next = Time::max();
  for (const Worker& worker : workers_)
    if (!worker.here && !worker.left && !worker.given_up)
      next = std::min(next, worker.away_since + patience);
  return next;
}

int Clocks::available() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return !worker.left && !worker.given_up;
  }));
}

std::string Clocks::describe_missing(Time now) const {
  std::string text;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (!worker.left && !worker.given_up) continue;
    if (!text.empty()) text += ", ";
    if (worker.left)
      text += fmt::format("worker/{} (has left)", i);
    else
      text += fmt::format("worker/{} (away for {:.1f} s)", i,
                          std::chrono::duration<double>(now - worker.away_since).count());
  }
  return text;
}

}  // namespace cohort::ps
