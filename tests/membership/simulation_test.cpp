#include "simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "cohort/base/sanitized_test.h"

namespace cohort::membership::simulator {
namespace {

constexpr std::uint64_t kSchedules = kSanitized ? 600 : 12'000;

std::optional<std::uint64_t> seed_to_replay() {
  const char* text = std::getenv("COHORT_SEED");
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

TEST(MembershipSimulationTest, InvariantsHoldInRandomSchedules) {
  if (const auto seed = seed_to_replay()) {
    EXPECT_NO_THROW(Simulation({.seed = *seed, .trace = true}).run());
    return;
  }
  SimulationResult sum;
  int failures = 0;
  std::uint64_t schedules = kSchedules;
  if (const char* text = std::getenv("COHORT_SCHEDULES"))
    schedules = std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= schedules && failures < 5; ++seed) {
    try {
      const SimulationResult result = Simulation({.seed = seed}).run();
      sum.events += result.events;
      sum.commits += result.commits;
      sum.redone += result.redone;
      sum.views += result.views;
      sum.evictions += result.evictions;
      sum.duration = std::max(sum.duration, result.duration);
    } catch (const std::exception& error) {
      ++failures;
      ADD_FAILURE() << "COHORT_SEED=" << seed << " replays this schedule: " << error.what();
    }
  }
  fmt::print(
      "{} schedules, {} events, {} commits, {} stages redone, {} views, {} evictions; the "
      "longest took {:.1f} s of virtual time\n",
      kSchedules, sum.events, sum.commits, sum.redone, sum.views, sum.evictions,
      static_cast<double>(sum.duration.count()) / 1e9);
  // A simulator in which nothing happens proves nothing.
  EXPECT_GT(sum.views, 2 * schedules);
  EXPECT_GT(sum.evictions, schedules);
  EXPECT_GT(sum.redone, schedules / 50);
}

// The first violation within so many seeds.
std::string caught(Plant plant, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    try {
      Simulation({.seed = seed, .plant = plant}).run();
    } catch (const Violation& violation) {
      fmt::print("seed {}: {}\n", seed, violation.what());
      return violation.what();
    }
  }
  return "";
}

TEST(MembershipSimulationTest, CatchesEvictionBeforeTheLeaseHasEnded) {
  EXPECT_NE(caught(Plant::evict_without_waiting, 300), "");
}

TEST(MembershipSimulationTest, CatchesReportsForOldProposals) {
  EXPECT_NE(caught(Plant::old_reports_count, 12000), "");
}

TEST(MembershipSimulationTest, CatchesCommitsWithoutALease) {
  EXPECT_NE(caught(Plant::commit_without_lease, 300), "");
}

TEST(MembershipSimulationTest, CatchesLearnersThatDoNotCopy) {
  EXPECT_NE(caught(Plant::learners_skip_copying, 300), "");
}

TEST(MembershipSimulationTest, CatchesAChiefThatDoesNotFillIn) {
  EXPECT_NE(caught(Plant::no_fill_in, 300), "");
}

TEST(MembershipSimulationTest, CatchesTrainingThatStandsStill) {
  EXPECT_NE(caught(Plant::learners_wait, 50), "");
}

}  // namespace
}  // namespace cohort::membership::simulator
