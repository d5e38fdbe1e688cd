#include "tests/platform/queue_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cohort::service {
namespace {

constexpr std::uint64_t kNodeGib = std::uint64_t{1} << 30;

std::vector<jobspec::Size> equal_nodes(int count) {
  return std::vector<jobspec::Size>(static_cast<std::size_t>(count),
                                    {.cores = 32, .memory_bytes = 128 * kNodeGib, .gpus = 4});
}

bool all_ended(const QueueSimulation& simulation) {
  return std::all_of(simulation.jobs().begin(), simulation.jobs().end(),
                     [](const SimulatedJob& job) { return job.ended >= 0; });
}

// The same arrivals give the same decisions; all jobs end, whatever their priority, size and user.
TEST(QueueSimulation, AllJobsEndAndNothingIsGivenTwice) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto jobs = random_jobs({.jobs = 1500, .between = 700}, seed);
    QueueSimulation simulation(equal_nodes(40), jobs), again(equal_nodes(40), jobs);
    simulation.run();
    again.run();
    EXPECT_TRUE(all_ended(simulation));
    EXPECT_GT(simulation.grown(), 0u);
    EXPECT_GT(simulation.given_back(), 0u);
    for (std::size_t i = 0; i < jobs.size(); ++i)
      EXPECT_EQ(simulation.jobs()[i].begun, again.jobs()[i].begun);
  }
}

// With jobs that run as long as they said, the first in line starts at the time that was to be
// foreseen when it became the first, or earlier.
TEST(QueueSimulation, TheFirstInLineStartsWhenItWasToBeForeseen) {
  for (std::uint64_t seed = 11; seed <= 14; ++seed) {
    const auto nodes = equal_nodes(12);
    auto jobs = random_jobs(
        {.jobs = 500, .users = 1, .endless = 0, .elastic = 0, .exact = 1, .between = 4000}, seed);
    for (auto& job : jobs) job.job.priority = 0;  // none that comes later goes before the first
    QueueSimulation simulation(nodes, jobs);
    std::string first;
    QueueTime promised = 0;
    int kept = 0;
    simulation.run([&](QueueTime now) {
      const auto line = simulation.queue().line(1, now);
      const std::string next = line.empty() ? "" : line.front();
      if (next == first && !first.empty()) {
        ASSERT_LE(now, promised) << first;
        return;
      }
      for (const auto& job : simulation.jobs())
        if (job.job.id == first && job.begun == now) ++kept;
      first = next;
      if (first.empty()) return;
      // Free now and after each end, counted anew.
      std::vector<Amount> free;
      for (const auto& node : nodes) free.push_back(amount_of(node));
      std::vector<const SimulatedJob*> running;
      Amount size{};
      int needed = 0;
      const auto move = [&](const SimulatedJob& job, int sign) {
        for (const Placed& placed : job.placement)
          for (std::size_t i = 0; i < 3; ++i)
            free[static_cast<std::size_t>(placed.node)][i] += sign * amount_of(job.job.instance)[i];
      };
      for (const auto& job : simulation.jobs()) {
        if (job.job.id == first) size = amount_of(job.job.instance), needed = job.job.least;
        if (job.placement.empty()) continue;
        move(job, -1);
        running.push_back(&job);
      }
      const auto end = [](const SimulatedJob& job) { return job.begun + job.runs; };
      std::sort(running.begin(), running.end(),
                [&](auto* a, auto* b) { return end(*a) < end(*b); });
      promised = now;
      const auto fits = [&] {
        std::int64_t count = 0;
        for (const Amount& there : free) count += times_in(there, size);
        return count >= needed;
      };
      for (auto* job : running) {
        if (fits()) break;
        move(*job, 1);
        promised = end(*job);
      }
    });
    EXPECT_TRUE(all_ended(simulation));
    EXPECT_GT(kept, 10);
  }
}

// A first in line of higher priority starts at the same time with others behind it and without,
// where running jobs say how long they take, and where none of them does.
TEST(QueueSimulation, JobsBehindNeverDelayTheFirstInLine) {
  int passed = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const bool endless = seed % 2 == 0;
    auto jobs = random_jobs(
        {.jobs = 60, .most_instances = 8, .endless = endless ? 1.0 : 0.0, .elastic = 0, .exact = 1},
        seed);
    const auto nodes = equal_nodes(4);
    QueueSimulation before(nodes, {jobs.begin(), jobs.begin() + 29});
    before.run();
    std::vector<SimulatedJob> alone;  // those that run when the first in line comes, and it
    for (std::size_t i = 0; i < 29; ++i)
      if (before.jobs()[i].begun == 0 && jobs[i].runs > 1000) alone.push_back(jobs[i]);
    SimulatedJob& first = jobs[29];
    first.arrives = 1000;
    first.job.priority = 100;
    first.job.instance = {.cores = 8, .memory_bytes = 16 * kNodeGib, .gpus = seed % 3 ? 0 : 1};
    first.job.least = first.job.most = 4 + static_cast<int>(seed % 5);
    alone.push_back(first);
    const std::size_t index = alone.size() - 1;
    std::vector<SimulatedJob> all = alone;
    for (std::size_t i = 30; i < jobs.size(); ++i) {
      jobs[i].arrives = 1000;
      if (i % 3 == 0) jobs[i].job.max_run = jobs[i].runs;
      all.push_back(jobs[i]);
    }
    QueueSimulation with(nodes, all), without(nodes, alone);
    with.run();
    without.run();
    EXPECT_EQ(with.jobs()[index].begun, without.jobs()[index].begun) << "seed " << seed;
    for (std::size_t i = index + 1; i < all.size(); ++i)
      passed += with.jobs()[i].begun < with.jobs()[index].begun;
  }
  EXPECT_GT(passed, 20);  // and some did start before it
}

}  // namespace
}  // namespace cohort::service
