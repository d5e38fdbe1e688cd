#include "cohort/service/queue/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/service/queue/fair_shares.h"

namespace cohort::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
const jobspec::Size kMachine{.cores = 8, .memory_bytes = 16 * kGib, .gpus = 4};

QueueJob job(const std::string& id, double cores, int least = 1, int most = 0) {
  return {.id = id,
          .name = "train-" + id,
          .user = "ann",
          .priority = 0,
          .instance = {.cores = cores, .memory_bytes = kGib / 2, .gpus = 0},
          .least = least,
          .most = most ? most : least,
          .scales = most > least,
          .max_run = 0};
}

std::vector<std::string> started(const Decision& decision) {
  std::vector<std::string> ids;
  for (const auto& start : decision.starts) ids.push_back(start.id);
  return ids;
}

TEST(Queue, AGangStartsWholeOrNotAtAll) {
  Queue queue({kMachine, kMachine});
  queue.add(job("a", 5), 0);
  EXPECT_THAT(started(queue.decide(0)), ElementsAre("a"));
  queue.add(job("b", 4, 4), 0);  // three fit
  EXPECT_THAT(queue.decide(1).starts, IsEmpty());
  queue.remove("a", 2);
  const Decision decision = queue.decide(2);
  ASSERT_THAT(started(decision), ElementsAre("b"));
  EXPECT_EQ(decision.starts[0].placement.size(), 4u);
}

// What an instance gets when the machine is divided among all of them.
TEST(Queue, EqualPartsOfAMachineFitIntoIt) {
  for (const int count : {3, 6, 7, 11, 1000, 3000}) {
    Queue queue({{.cores = 2, .memory_bytes = 16 * kGib, .gpus = 0}});
    QueueJob all = job("a", 2.0 / count, count);
    all.instance.memory_bytes = 16 * kGib / static_cast<std::uint64_t>(count);
    queue.add(all, 0);
    EXPECT_THAT(started(queue.decide(0)), ElementsAre("a")) << count << " instances";
  }
}

TEST(Queue, GpusAreGivenByIndex) {
  Queue queue({kMachine});
  auto a = job("a", 1);
  auto b = job("b", 1, 2);
  a.instance.gpus = b.instance.gpus = 1;
  queue.add(a, 0);
  queue.add(b, 0);
  const Decision decision = queue.decide(0);
  ASSERT_EQ(decision.starts.size(), 2u);
  EXPECT_EQ(decision.starts[0].placement, (std::vector<Placed>{{0, {0}}}));
  EXPECT_EQ(decision.starts[1].placement, (std::vector<Placed>{{0, {1}}, {0, {2}}}));
  queue.remove("a", 1);
  auto c = job("c", 1);
  c.instance.gpus = 2;
  queue.add(c, 1);
  EXPECT_EQ(queue.decide(1).starts.at(0).placement, (std::vector<Placed>{{0, {0, 3}}}));
}

TEST(Queue, HigherPrioritiesComeFirst) {
  Queue queue({kMachine});
  queue.add(job("a", 8), 0);
  queue.decide(0);
  queue.add(job("b", 1), 1);
  auto urgent = job("c", 1);
  urgent.priority = 5;
  queue.add(urgent, 1);
  EXPECT_THAT(queue.line(9, 1), ElementsAre("c", "b"));
}

TEST(Queue, UsersTakeTurnsByWhatTheyHaveHad) {
  Queue queue({kMachine});
  queue.add(job("a", 8), 0);
  queue.decide(0);
  queue.remove("a", 1000);  // ann has had the whole machine for a second
  for (const std::string id : {"b", "c", "d", "e"}) {
    auto next = job(id, 8);
    next.user = id < "d" ? "ann" : "bob";
    queue.add(next, 1000);
  }
  EXPECT_THAT(queue.line(9, 1000), ElementsAre("d", "b", "e", "c"));
}

TEST(FairShares, AnAverageMovesByHalfInAHalfLife) {
  FairShares shares(1000);
  shares.hold("ann", 0.5, 0);
  EXPECT_DOUBLE_EQ(shares.standing("ann", 0), 0.5);
  EXPECT_DOUBLE_EQ(shares.standing("ann", 1000), 0.75);
  shares.hold("ann", -0.5, 1000);
  EXPECT_DOUBLE_EQ(shares.standing("ann", 2000), 0.125);
  FairShares later(1000);
  later.remember("ann", 0.5, 0, 1000, 2000);
  EXPECT_DOUBLE_EQ(later.standing("ann", 2000), 0.125);
}

TEST(Queue, AShortJobPassesTheFirstInLine) {
  Queue queue({kMachine});
  auto a = job("a", 6);
  a.max_run = 10000;
  queue.add(a, 0);
  queue.decide(0);
  queue.add(job("b", 8), 0);
  auto fits = job("c", 2), late = job("d", 2);
  fits.max_run = 9000;
  late.max_run = 9001;
  queue.add(late, 1000);
  queue.add(fits, 1000);
  EXPECT_THAT(started(queue.decide(1000)), ElementsAre("c"));
}

TEST(Queue, AJobBesideWhatIsSetAsidePassesHoweverLongItRuns) {
  Queue queue({kMachine});
  auto a = job("a", 6);
  a.max_run = 10000;
  queue.add(a, 0);
  queue.decide(0);
  queue.add(job("b", 7), 0);
  queue.add(job("c", 1), 0);
  queue.add(job("d", 1), 0);
  EXPECT_THAT(started(queue.decide(0)), ElementsAre("c"));
}

TEST(Queue, BehindEndlessJobsOnlyWhatTheFirstDoesNotNeedAtAll) {
  Queue queue({kMachine});
  auto a = job("a", 2);
  a.instance.gpus = 4;
  queue.add(a, 0);
  queue.decide(0);
  auto first = job("b", 4);
  first.instance.gpus = 1;
  queue.add(first, 0);
  queue.add(job("c", 3), 0);  // would leave 3 cores of 4
  queue.add(job("d", 2), 0);
  auto brief = job("e", 1);
  brief.max_run = 1;  // the first may start any moment
  queue.add(brief, 0);
  EXPECT_THAT(started(queue.decide(0)), ElementsAre("d"));
  queue.remove("a", 1);
  EXPECT_THAT(started(queue.decide(1)), ElementsAre("b"));
}

TEST(Queue, AnElasticJobGrowsGivesBackAndKeepsItsLeast) {
  Queue queue({kMachine});
  queue.add(job("b", 5), 0);
  queue.add(job("e", 1, 2, 6), 0);
  const Decision begin = queue.decide(0);
  ASSERT_THAT(started(begin), ElementsAre("b", "e"));
  EXPECT_EQ(begin.starts[1].placement.size(), 3u);  // all that is left
  queue.remove("b", 1);
  const Decision grown = queue.decide(1);
  ASSERT_EQ(grown.scales.size(), 1u);
  EXPECT_EQ(grown.scales[0].instances, 6);
  queue.add(job("c", 4), 2);
  const Decision back = queue.decide(2);
  EXPECT_THAT(back.starts, IsEmpty());
  ASSERT_EQ(back.scales.size(), 1u);
  EXPECT_EQ(back.scales[0].instances, 4);
  EXPECT_THAT(queue.decide(3).scales, IsEmpty());  // asked once
  queue.returned("e", 4);
  EXPECT_THAT(started(queue.decide(4)), ElementsAre("c"));
  queue.add(job("d", 3), 5);  // even its least would be needed
  EXPECT_THAT(queue.decide(5).scales, IsEmpty());
  queue.add(job("f", 2), 5);
  EXPECT_EQ(queue.free().cores, 0);
}

TEST(Queue, ALimitOfAPersonHoldsForAnElasticJob) {
  Queue queue({kMachine});
  queue.add(job("e", 1, 2, 6), 0);
  EXPECT_EQ(queue.decide(0).starts.at(0).placement.size(), 6u);
  queue.set_most("e", 3);
  const Decision fewer = queue.decide(1);
  ASSERT_EQ(fewer.scales.size(), 1u);
  EXPECT_EQ(fewer.scales[0].instances, 3);
  queue.returned("e", 2);
  EXPECT_THAT(queue.decide(2).scales, IsEmpty());
  queue.set_most("e", 99);
  EXPECT_EQ(queue.decide(3).scales.at(0).instances, 6);
}

TEST(Queue, ReasonsSayWhatIsMissingAndWhoHoldsIt) {
  Queue queue({kMachine});
  queue.add(job("a", 6), 0);
  queue.decide(0);
  queue.add(job("b", 4), 0);
  queue.add(job("c", 4), 0);
  queue.add(job("d", 4), 0);
  queue.add(job("x", 16), 0);
  queue.decide(0);
  const auto reasons = queue.reasons(0);
  EXPECT_EQ(reasons.at("b"), "waits for 4 cores: 2 are free, 'train-a' holds 6");
  EXPECT_EQ(reasons.at("d"), "third in line");
  EXPECT_EQ(reasons.at("x"), "needs 16 cores; there are 8");
}

TEST(Queue, JobsThatRunAlreadyHoldWhatTheyHad) {
  Queue queue({kMachine});
  auto a = job("a", 3);
  a.instance.gpus = 1;
  queue.add_running(a, {{0, {2}}}, -5000, 0);
  EXPECT_EQ(queue.free().cores, 5);
  auto b = job("b", 1);
  b.instance.gpus = 3;
  queue.add(b, 0);
  EXPECT_EQ(queue.decide(0).starts.at(0).placement, (std::vector<Placed>{{0, {0, 1, 3}}}));
  Queue smaller({{.cores = 2, .memory_bytes = kGib, .gpus = 0}});  // than what runs
  smaller.add_running(a, {{0, {2}}}, 0, 0);
  smaller.add(job("c", 1), 0);
  EXPECT_THAT(smaller.decide(0).starts, IsEmpty());
  smaller.remove("a", 1);
  EXPECT_THAT(started(smaller.decide(1)), ElementsAre("c"));
}

}  // namespace
}  // namespace cohort::service
