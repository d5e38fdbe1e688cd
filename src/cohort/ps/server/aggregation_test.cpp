#include "cohort/ps/server/aggregation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::ps {
namespace {

using Arrival = Aggregation::Arrival;
using Reason = Values::Reason;

Contribution from(int worker, std::uint64_t sequence) {
  Contribution contribution;
  contribution.worker = worker;
  contribution.sequence = sequence;
  return contribution;
}

Aggregation sync(int workers, int aggregate, std::uint64_t version = 0) {
  return {AggregationRules::of({.mode = Policy::Mode::sync, .aggregate = aggregate}, workers),
          version, std::vector<std::uint64_t>(static_cast<std::size_t>(workers), version)};
}
Aggregation async(int workers) {
  return {AggregationRules::of({.mode = Policy::Mode::async}, workers), 0,
          std::vector<std::uint64_t>(static_cast<std::size_t>(workers))};
}

std::vector<int> workers_of(std::span<const Contribution> used) {
  std::vector<int> workers;
  for (const Contribution& contribution : used) workers.push_back(contribution.worker);
  return workers;
}

TEST(AggregationRules, ZeroOrMoreThanThereAreMeansAll) {
  for (int aggregate : {0, -1, 3, 4, 100})
    EXPECT_EQ(AggregationRules::of({.aggregate = aggregate}, 3).required, 3) << aggregate;
  EXPECT_EQ(AggregationRules::of({.aggregate = 2}, 3).required, 2);
  EXPECT_EQ(AggregationRules::of({.mode = Policy::Mode::bounded, .aggregate = 2}, 3).required, 1);
}

TEST(Aggregation, SyncWaitsForAllAndGivesThemInTheOrderOfWorkers) {
  auto queue = sync(3, 0, 7);
  EXPECT_EQ(queue.offer(from(2, 8)), Arrival::queued);
  EXPECT_EQ(queue.offer(from(0, 8)), Arrival::queued);
  EXPECT_TRUE(queue.take().empty());
  EXPECT_EQ(queue.offer(from(1, 8)), Arrival::queued);
  EXPECT_EQ(workers_of(queue.take()), (std::vector{0, 1, 2}));
  EXPECT_TRUE(queue.take().empty()) << "one update at a time";
  const auto answers = queue.commit();
  EXPECT_EQ(answers,
            (std::vector<Settled>{
                {0, 8, Reason::applied}, {1, 8, Reason::applied}, {2, 8, Reason::applied}}));
  EXPECT_EQ(queue.version(), 8u);
}

TEST(Aggregation, ABackupWorkersPushIsLateBeforeAndAfterItCame) {
  auto queue = sync(3, 2);
  queue.offer(from(2, 1));
  queue.offer(from(0, 1));
  EXPECT_EQ(workers_of(queue.take()), (std::vector{0, 2}));
  EXPECT_EQ(queue.offer(from(1, 1)), Arrival::queued) << "the update is not decided yet";
  const auto answers = queue.commit();
  EXPECT_EQ(answers,
            (std::vector<Settled>{
                {0, 1, Reason::applied}, {2, 1, Reason::applied}, {1, 1, Reason::dropped_late}}));
  EXPECT_EQ(queue.offer(from(1, 1)), Arrival::late);
  EXPECT_EQ(queue.offer(from(0, 1)), Arrival::applied);
  EXPECT_EQ(queue.settled(1), 1u);
  EXPECT_EQ(queue.offer(from(1, 2)), Arrival::queued) << "it goes on with the next step";
}

TEST(Aggregation, MoreThanRequiredThatWaitAreUsedInTheOrderOfArrival) {
  auto queue = sync(4, 2);
  const std::vector<std::uint64_t> none(4);
  for (int worker : {3, 1, 0, 2}) queue.offer(from(worker, 1));
  EXPECT_TRUE(queue.take(none).empty());
  EXPECT_EQ(workers_of(queue.take()), (std::vector{1, 3}));
}

TEST(Aggregation, AsyncTakesEachAsItComesAndRemembersWhatIsIn) {
  auto queue = async(2);
  queue.offer(from(1, 1));
  EXPECT_EQ(workers_of(queue.take()), std::vector{1});
  EXPECT_EQ(queue.offer(from(0, 1)), Arrival::queued);
  EXPECT_EQ(queue.offer(from(1, 1)), Arrival::waits);
  EXPECT_EQ(queue.offer(from(0, 1)), Arrival::waits);
  EXPECT_EQ(queue.commit(), (std::vector<Settled>{{1, 1, Reason::applied}}));
  EXPECT_EQ(queue.offer(from(1, 1)), Arrival::applied);
  EXPECT_EQ(workers_of(queue.take()), std::vector{0});
  queue.commit();
  EXPECT_EQ(queue.version(), 2u);
}

TEST(Aggregation, GapsAndASecondPushAreNamed) {
  auto queue = async(2);
  EXPECT_EQ(message_of<ProtocolError>([&] { queue.offer(from(1, 2)); }),
            "worker/1 pushes sequence 2, but 1 comes next");
  queue.offer(from(1, 1));
  EXPECT_EQ(message_of<ProtocolError>([&] { queue.offer(from(1, 2)); }),
            "worker/1 pushes sequence 2 while an earlier push of its is not answered");
  auto together = sync(2, 0, 4);
  EXPECT_EQ(message_of<ProtocolError>([&] { together.offer(from(0, 6)); }),
            "worker/0 pushes sequence 6, but 5 comes next");
}

TEST(Aggregation, WhatIsRefusedMayComeAgainAndTheRestWaits) {
  auto queue = sync(3, 0);
  for (int worker : {0, 1, 2}) queue.offer(from(worker, 1));
  queue.take();
  queue.refuse(std::vector{1});
  EXPECT_TRUE(queue.take().empty());
  EXPECT_EQ(queue.offer(from(0, 1)), Arrival::waits);
  EXPECT_EQ(queue.offer(from(1, 1)), Arrival::queued);
  EXPECT_EQ(workers_of(queue.take()), (std::vector{0, 1, 2}));
}

TEST(Aggregation, DroppedOnesAreAnsweredSoAndSettled) {
  auto queue = async(1);
  queue.offer(from(0, 1));
  queue.take();
  EXPECT_EQ(queue.commit(std::vector{0}),
            (std::vector<Settled>{{0, 1, Reason::dropped_not_finite}}));
  EXPECT_EQ(queue.offer(from(0, 2)), Arrival::queued);
}

TEST(Aggregation, LimitsHoldLaterSequencesBack) {
  auto queue = async(2);
  queue.offer(from(0, 1));
  queue.offer(from(1, 1));
  const std::vector<std::uint64_t> limits{0, 1};
  EXPECT_EQ(workers_of(queue.take(limits)), std::vector{1})
      << "worker/0's waits, though it was first";
  queue.commit();
  EXPECT_TRUE(queue.take(limits).empty());
  EXPECT_EQ(workers_of(queue.take()), std::vector{0});
}

// Workers that push, crash and push again in random orders, against what each mode promises.
class RandomArrivals : public testing::TestWithParam<int> {};

TEST_P(RandomArrivals, EveryPushIsDecidedOnceWhateverTheOrder) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int workers = 1 + pick(6);
  const int required = 1 + pick(workers);
  const bool together = pick(2) == 0;
  auto queue = together ? sync(workers, required) : async(workers);
  std::vector<std::uint64_t> next(static_cast<std::size_t>(workers), 1);
  std::map<std::pair<int, std::uint64_t>, Reason> decided;
  std::map<std::uint64_t, int> uses;  // by version: how many were in it
  std::set<std::pair<int, std::uint64_t>> in_flight;
  bool busy = false;
  for (int event = 0; event < 2000; ++event) {
    const int worker = pick(workers);
    const std::uint64_t sequence = next[static_cast<std::size_t>(worker)];
    const auto key = std::pair(worker, sequence);
    const auto decide = [&](const Settled& push) {
      ASSERT_EQ(push.sequence, next[static_cast<std::size_t>(push.worker)]);
      const auto [it, fresh] = decided.insert({{push.worker, push.sequence}, push.reason});
      ASSERT_TRUE(fresh) << "worker/" << push.worker << " sequence " << push.sequence;
      if (push.reason == Reason::applied) ++uses[queue.version()];
      in_flight.erase({push.worker, push.sequence});
      next[static_cast<std::size_t>(push.worker)] =
          together ? std::max(push.sequence + 1, queue.version() + (pick(2) == 0 ? 1 : 0))
                   : push.sequence + 1;
    };
    switch (pick(3)) {
      case 0: {
        const Arrival arrival = queue.offer(from(worker, sequence));
        if (in_flight.contains(key))
          ASSERT_EQ(arrival, Arrival::waits);
        else if (together && sequence <= queue.version()) {
          ASSERT_EQ(arrival, Arrival::late);
          decide({worker, sequence, Reason::dropped_late});
        } else {
          ASSERT_EQ(arrival, Arrival::queued);
          in_flight.insert(key);
        }
        break;
      }
      case 1:
        if (!busy) busy = !queue.take().empty();
        break;
      case 2:
        if (std::exchange(busy, false))
          for (const Settled& push : queue.commit()) decide(push);
        break;
    }
    if (sequence > 1 && decided.contains({worker, sequence - 1}) &&
        decided[{worker, sequence - 1}] == Reason::applied) {
      ASSERT_EQ(queue.offer(from(worker, sequence - 1)), Arrival::applied);
    }
  }
  EXPECT_GT(queue.version(), 10u);
  for (std::uint64_t version = 1; version <= queue.version(); ++version)
    EXPECT_EQ(uses[version], together ? required : 1) << "version " << version;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomArrivals, testing::Range(0, 40));

}  // namespace
}  // namespace cohort::ps
