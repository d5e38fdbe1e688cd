#include "cohort/membership/protocol/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/membership/protocol/pump_test.h"

namespace cohort::membership {
namespace {

using namespace std::chrono_literals;
using Kind = MembershipEvent::Kind;
using Phase = Coordinator::Phase;
using State = Member::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CoordinatorOptions options(int least, int most, int initial) {
  CoordinatorOptions options;
  options.least = least;
  options.most = most;
  options.initial = initial;
  return options;
}

// Three members that train in view 1.
struct Three : Pump {
  explicit Three(int least = 1, int most = 4) : Pump(options(least, most, 3)) {
    for (int task = 0; task < 3; ++task) add(task);
  }
};

TEST(CoordinatorTest, FirstViewWaitsForTheInitialNumber) {
  Pump pump(options(1, 4, 3));
  pump.add(0);
  pump.add(1);
  EXPECT_EQ(pump.coordinator.phase(), Phase::gathering);
  pump.add(2);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  EXPECT_EQ(pump.coordinator.view().number, 1u);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0", "worker/1.0.0", "worker/2.0.0"));
  EXPECT_EQ(pump.at(0).state(), State::training);
  EXPECT_EQ(pump.at(2).view(), pump.coordinator.view());
  EXPECT_TRUE(pump.at(1).may_commit(pump.now));
}

TEST(CoordinatorTest, FirstViewStartsWithFewerWhenPatienceIsOver) {
  Pump pump(options(2, 4, 4));
  pump.add(0);
  pump.add(1);
  pump.pass(29s);
  EXPECT_EQ(pump.coordinator.phase(), Phase::gathering);
  pump.pass(2s);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0", "worker/1.0.0"));
}

TEST(CoordinatorTest, TooFewAtTheStartWaitAndThenFail) {
  Pump pump(options(2, 4, 4));
  pump.add(0);
  pump.pass(31s);
  EXPECT_EQ(pump.count(Kind::waiting), 1);
  pump.pass(8min);
  EXPECT_EQ(pump.coordinator.phase(), Phase::gathering);
  pump.pass(2min);
  EXPECT_EQ(pump.coordinator.phase(), Phase::failed);
  EXPECT_THAT(pump.last(Kind::failed)->text, HasSubstr("only 1 of at least 2"));
}

TEST(CoordinatorTest, DeathIsProposedAtOnceAndSurvivorsKeepTheirOrder) {
  Three pump;
  pump.kill_and_tell(0);
  EXPECT_EQ(pump.at(1).proposal(), 2u);
  EXPECT_TRUE(pump.at(1).must_drop());
  EXPECT_FALSE(pump.at(1).may_commit(pump.now));
  pump.report(2, 7);
  EXPECT_EQ(pump.coordinator.view().number, 1u);
  pump.report(1, 8);
  EXPECT_EQ(pump.coordinator.view().number, 2u);
  EXPECT_THAT(pump.view(), ElementsAre("worker/1.0.0", "worker/2.0.0"));
  EXPECT_EQ(pump.at(2).view().stage(), 8);
  EXPECT_EQ(pump.at(2).view().donor(), 0);
  EXPECT_TRUE(pump.at(2).view().is_behind(1));
  EXPECT_THAT(pump.coordinator.view().reason, HasSubstr("worker/0: was killed by signal 9"));
}

TEST(CoordinatorTest, NewcomersComeBehindAndMembersMayEndTheirStage) {
  Three pump;
  pump.add(5);
  EXPECT_EQ(pump.at(0).proposal(), 2u);
  EXPECT_FALSE(pump.at(0).must_drop());
  EXPECT_TRUE(pump.at(0).may_commit(pump.now));
  for (int task : {0, 1, 2}) pump.report(task, 3);
  EXPECT_THAT(pump.view(),
              ElementsAre("worker/0.0.0", "worker/1.0.0", "worker/2.0.0", "worker/5.0.0"));
  EXPECT_EQ(pump.at(5).view().members[3].stage, kNoState);
  EXPECT_EQ(pump.at(5).view(), pump.at(0).view());
}

TEST(CoordinatorTest, NewcomersWhoComeTogetherComeInOneChange) {
  Pump pump(options(1, 8, 2));
  pump.add(0);
  pump.add(1);
  for (int task : {2, 3, 4}) pump.add(task);
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing);
  pump.report(0, 5);
  pump.report(1, 5);
  EXPECT_EQ(pump.coordinator.view().number, 2u);
  EXPECT_EQ(pump.coordinator.view().size(), 5);
}

TEST(CoordinatorTest, DeathDuringAPlannedChangeMakesTheNextNumberUnplanned) {
  Three pump;
  pump.add(3);
  pump.report(0, 4);
  pump.kill_and_tell(1);
  EXPECT_EQ(pump.at(2).proposal(), 3u);
  EXPECT_TRUE(pump.at(2).must_drop());
  pump.report(2, 3);
  EXPECT_EQ(pump.coordinator.view().number, 3u);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0", "worker/2.0.0", "worker/3.0.0"));
  EXPECT_EQ(pump.at(3).view().stage(), 4);
}

TEST(CoordinatorTest, DeathDuringRecoveryMakesTheNextNumberAndNoMemberReportsTwiceByHand) {
  Three pump;
  pump.kill_and_tell(0);
  pump.report(1, 9);
  pump.kill_and_tell(2);
  EXPECT_EQ(pump.coordinator.view().number, 3u);
  EXPECT_THAT(pump.view(), ElementsAre("worker/1.0.0"));
  EXPECT_EQ(pump.at(1).state(), State::training);
}

TEST(CoordinatorTest, LostCandidateLeavesAPlannedChangePlanned) {
  Three pump;
  pump.add(3);
  pump.report(0, 2);
  pump.kill_and_tell(3);
  EXPECT_EQ(pump.at(1).proposal(), 3u);
  EXPECT_FALSE(pump.at(1).must_drop());
  pump.report(1, 2);
  pump.report(2, 2);
  EXPECT_EQ(pump.coordinator.view().number, 3u);
  EXPECT_EQ(pump.coordinator.view().size(), 3);
}

TEST(CoordinatorTest, NumbersAreNeverUsedTwice) {
  Three pump;
  std::uint64_t last = 1;
  for (int round = 0; round < 5; ++round) {
    pump.at(0).broken(pump.now, "reset");
    pump.pump();
    pump.pass(1s);
    EXPECT_GT(pump.at(0).proposal(), last);
    last = pump.at(0).proposal();
    for (int task : {0, 1, 2}) pump.report(task, 1);
    EXPECT_EQ(pump.coordinator.view().number, last);
  }
}

TEST(CoordinatorTest, SilentMemberIsEvictedOnlyAfterItsLeaseHasEnded) {
  Three pump;
  pump.pass(5s);
  pump.deaf.insert(1);
  const Time silent_since = pump.now;
  while (pump.count(Kind::evicted) == 0 && pump.now < silent_since + 10s) pump.pass(1ms);
  ASSERT_EQ(pump.count(Kind::evicted), 1);
  EXPECT_FALSE(pump.at(1).may_commit(pump.now));
  EXPECT_LT(pump.now - silent_since, 2200ms);
  EXPECT_THAT(pump.last(Kind::evicted)->text, HasSubstr("nothing was heard of it"));
  EXPECT_TRUE(pump.at(0).must_drop());
}

TEST(CoordinatorTest, EvictedMemberComesAgainUnderANewIdWithoutState) {
  Three pump;
  pump.deaf.insert(1);
  pump.pass(3s);
  pump.report(0, 6);
  pump.report(2, 6);
  EXPECT_EQ(pump.coordinator.view().size(), 2);
  pump.deaf.clear();
  pump.pass(1s);
  ASSERT_EQ(pump.at(1).state(), State::evicted);
  pump.at(1).rejoin(pump.now);
  pump.pump();
  pump.report(0, 7);
  pump.report(2, 7);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0", "worker/2.0.0", "worker/1.0.1"));
  EXPECT_EQ(pump.at(1).view().members[2].stage, kNoState);
}

TEST(CoordinatorTest, SuspectedMemberIsWaitedForUntilItsLeaseEnds) {
  Three pump;
  pump.pass(1s);
  pump.deaf.insert(1);
  pump.coordinator.suspect(pump.now, "worker/1.0.0", "its connection ended");
  pump.pump();
  EXPECT_TRUE(pump.at(0).must_drop());
  pump.report(0, 1);
  pump.report(2, 1);
  EXPECT_EQ(pump.coordinator.view().number, 1u);
  ASSERT_TRUE(pump.at(1).may_commit(pump.now));
  pump.coordinator.lost(pump.now, "worker/1", 0, "was killed");
  pump.pump();
  EXPECT_EQ(pump.coordinator.view().size(), 2);
}

TEST(CoordinatorTest, BeatTakesSuspicionBack) {
  Three pump;
  pump.coordinator.suspect(pump.now, "worker/1.0.0", "its connection ended");
  pump.pass(5s);
  for (int task : {0, 1, 2}) pump.report(task, 1);
  EXPECT_EQ(pump.coordinator.view().size(), 3);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
}

TEST(CoordinatorTest, CoordinatorThatOversleptEvictsNoMemberBeforeItHasReadItsMail) {
  Three pump;
  pump.now += 30s;
  pump.coordinator.tick(pump.now);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
  pump.pass(5s);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
  EXPECT_EQ(pump.coordinator.view().number, 1u);
}

TEST(CoordinatorTest, CoordinatorThatOversleptAgainEvictsNoMemberEither) {
  Three pump;
  for (int nap = 0; nap < 3; ++nap) {
    pump.now += 30s;
    pump.coordinator.tick(pump.now);
    pump.pass(5s);
  }
  EXPECT_EQ(pump.count(Kind::evicted), 0);
}

TEST(CoordinatorTest, LeaseThatEndsWhileABeatLiesUnreadEvictsNoMember) {
  Three pump;
  const auto due = pump.coordinator.next_tick();
  ASSERT_TRUE(due);
  pump.now = *due + 1ms;
  pump.coordinator.tick(pump.now);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
  pump.pass(5s);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
}

TEST(CoordinatorTest, MemberThatBeatsButDoesNotRestIsEvictedWhenPatienceIsOver) {
  Three pump;
  pump.kill_and_tell(0);
  pump.report(1, 3);
  pump.pass(5min - 1s);
  EXPECT_EQ(pump.count(Kind::evicted), 1);
  pump.pass(1s + 1500ms);
  EXPECT_EQ(pump.count(Kind::evicted), 1) << "its lease still holds";
  pump.pass(2s);
  EXPECT_EQ(pump.count(Kind::evicted), 2);
  EXPECT_THAT(pump.last(Kind::evicted)->text, HasSubstr("did not come to rest"));
  EXPECT_THAT(pump.view(), ElementsAre("worker/1.0.0"));
  EXPECT_EQ(pump.at(2).state(), State::evicted);
}

TEST(CoordinatorTest, MembersThatAreAllInALongStageAreWaitedFor) {
  Three pump;
  pump.kill_and_tell(0);
  pump.pass(30min);
  EXPECT_EQ(pump.count(Kind::evicted), 1);
  pump.report(1, 3);
  pump.pass(4min);
  pump.report(2, 3);
  EXPECT_EQ(pump.count(Kind::evicted), 1);
  EXPECT_THAT(pump.view(), ElementsAre("worker/1.0.0", "worker/2.0.0"));
}

TEST(CoordinatorTest, TooFewMembersWaitForMoreAndThenFail) {
  Three pump(/*least=*/2);
  pump.kill_and_tell(0);
  pump.kill_and_tell(1);
  pump.report(2, 5);
  EXPECT_EQ(pump.count(Kind::waiting), 1);
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing);
  pump.pass(9min);
  pump.add(0, /*incarnation=*/1);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  EXPECT_THAT(pump.view(), ElementsAre("worker/2.0.0", "worker/0.1.0"));
  pump.kill_and_tell(0);
  pump.report(2, 5);
  pump.pass(9min);
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing) << "patience begins anew";
  pump.pass(2min);
  EXPECT_EQ(pump.coordinator.phase(), Phase::failed);
}

TEST(CoordinatorTest, OtherAgreementIsRefusedWithTheFirstOnes) {
  Pump pump(options(1, 4, 1));
  pump.add(0, 0, R"({"batch": 64})");
  pump.add(1, 0, R"({"batch": 32})");
  EXPECT_EQ(pump.at(1).state(), State::refused);
  EXPECT_EQ(pump.at(1).reason(), R"({"batch": 64})");
  EXPECT_EQ(pump.count(Kind::refused), 1);
  EXPECT_EQ(pump.at(0).proposal(), 1u) << "a refused worker disturbs no member";
  pump.kill_and_tell(0);
  pump.add(2, 0, R"({"batch": 32})");
  EXPECT_EQ(pump.at(2).state(), State::training) << "no worker with the first agreement is there";
}

TEST(CoordinatorTest, ShrinkingDismissesTheLastRanksOnceTheNewViewIsInstalled) {
  Three pump;
  pump.coordinator.resize(pump.now, 1, "resized to 1");
  pump.pump();
  EXPECT_FALSE(pump.at(2).must_drop());
  pump.report(2, 8);
  pump.report(1, 8);
  EXPECT_EQ(pump.at(2).state(), State::resting);
  pump.report(0, 8);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0"));
  EXPECT_EQ(pump.at(1).state(), State::dismissed);
  EXPECT_EQ(pump.at(2).state(), State::dismissed);
  EXPECT_EQ(pump.count(Kind::dismissed), 2);
  pump.coordinator.handle(pump.now,
                          {.kind = MessageKind::broken, .member = "worker/2.0.0", .number = 2});
  pump.coordinator.lost(pump.now, "worker/2", 0, "exited");
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
}

TEST(CoordinatorTest, GrowingTakesWhoWaitsAndWhoIsTooManyWaitsOn) {
  Pump pump(options(1, 4, 2));
  pump.coordinator.resize(pump.now, 2, "resized to 2");
  for (int task : {0, 1, 2, 3}) pump.add(task);
  EXPECT_EQ(pump.coordinator.view().size(), 2);
  EXPECT_EQ(pump.at(2).state(), State::waiting);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  pump.coordinator.resize(pump.now, 3, "resized to 3");
  pump.pump();
  pump.report(0, 1);
  pump.report(1, 1);
  EXPECT_THAT(pump.view(), ElementsAre("worker/0.0.0", "worker/1.0.0", "worker/2.0.0"));
  EXPECT_EQ(pump.at(3).state(), State::waiting);
  EXPECT_THROW(pump.coordinator.resize(pump.now, 5, ""), InvalidInput);
}

TEST(CoordinatorTest, TrainingIsOverWhenAllMembersHaveFinishedAndWhoWaitsIsDismissed) {
  Pump pump(options(1, 4, 2));
  pump.coordinator.resize(pump.now, 2, "resized to 2");
  for (int task : {0, 1, 2}) pump.add(task);
  pump.finish(0, 10);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  pump.finish(1, 10);
  EXPECT_EQ(pump.coordinator.phase(), Phase::over);
  EXPECT_EQ(pump.at(0).state(), State::over);
  EXPECT_EQ(pump.at(2).state(), State::dismissed);
  EXPECT_EQ(pump.add(3).state(), State::dismissed);
  pump.kill_and_tell(0);
  EXPECT_EQ(pump.count(Kind::evicted), 0);
  EXPECT_EQ(pump.coordinator.phase(), Phase::over);
}

TEST(CoordinatorTest, MemberLostBeforeItFinishedNeedsANewViewAlthoughTheOthersHave) {
  Three pump;
  pump.finish(1, 10);
  pump.finish(2, 10);
  pump.kill_and_tell(0);  // the chief's last record may be missing
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing);
  pump.report(1, 10);
  pump.report(2, 10);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  pump.finish(1, 10);
  pump.finish(2, 10);
  EXPECT_EQ(pump.coordinator.phase(), Phase::over);
}

TEST(CoordinatorTest, MemberLostAfterItFinishedNeedsANewViewWhileOthersTrain) {
  Three pump;
  pump.finish(0, 10);
  pump.kill_and_tell(0);
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing);
}

TEST(CoordinatorTest, NoWorkerIsTakenWhenSomeHaveFinished) {
  Three pump;
  pump.finish(0, 10);
  pump.add(3);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  pump.finish(1, 10);
  pump.finish(2, 10);
  EXPECT_EQ(pump.at(3).state(), State::dismissed);
}

TEST(CoordinatorTest, BrokenCollectivesWithoutADeathAreTriedAgainAtOnceThenLater) {
  Three pump;
  std::vector<Time> delays;
  for (int round = 0; round < 8; ++round) {
    const Time broke = pump.now;
    pump.at(1).broken(pump.now, "connection reset");
    pump.pump();
    while (pump.coordinator.phase() == Phase::training && pump.now < broke + 5s) pump.pass(1ms);
    delays.push_back(pump.now - broke);
    for (int task : {0, 1, 2}) pump.report(task, 0);
    ASSERT_EQ(pump.coordinator.phase(), Phase::training);
    EXPECT_EQ(pump.coordinator.view().size(), 3);
  }
  EXPECT_EQ(delays[0], 0ms);
  EXPECT_EQ(delays[1], 50ms);
  EXPECT_EQ(delays[2], 100ms);
  EXPECT_EQ(delays[7], 1000ms);
  pump.at(0).resumed(pump.now, 1, 1ms, false);
  pump.pump();
  pump.at(1).broken(pump.now, "connection reset");
  pump.pump();
  EXPECT_EQ(pump.coordinator.phase(), Phase::changing) << "a view that trained forgives";
}

TEST(CoordinatorTest, LastWordsOfADeadProcessAreNotHeard) {
  Three pump;
  Message ready{.kind = MessageKind::ready, .member = "worker/3.0.0", .text = "{}"};
  ready.info = {"worker/3", 0, 0, "host", 5};
  pump.coordinator.lost(pump.now, "worker/3", 0, "was killed");
  pump.coordinator.handle(pump.now, ready);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
  EXPECT_EQ(pump.add(3, /*incarnation=*/1).state(), State::waiting);
}

TEST(CoordinatorTest, LostMessagesAreSaidAgain) {
  Three pump;
  pump.pass(1s);
  pump.coordinator.resize(pump.now, 2, "resized to 2");
  (void)pump.coordinator.take_messages();  // the proposals are lost
  pump.pass(2s);
  ASSERT_EQ(pump.at(0).proposal(), 2u);
  for (int task : {0, 1, 2}) {
    pump.at(task).report(pump.now, 4);
    (void)pump.at(task).take_messages();  // the reports too
  }
  pump.pass(1s);
  EXPECT_EQ(pump.coordinator.view().number, 2u);
  pump.kill_and_tell(1);
  pump.at(0).report(pump.now, 4);
  for (const Message& message : pump.at(0).take_messages())
    pump.coordinator.handle(pump.now, message);
  (void)pump.coordinator.take_messages();  // and the view
  ASSERT_EQ(pump.at(0).state(), State::resting);
  pump.pass(1s);
  EXPECT_EQ(pump.at(0).state(), State::training);
  EXPECT_EQ(pump.at(0).view(), pump.coordinator.view());
}

TEST(CoordinatorTest, ResumedIsToldOncePerViewAndNotByNewcomers) {
  Three pump;
  pump.add(3);
  for (int task : {0, 1, 2}) pump.report(task, 1);
  pump.at(3).resumed(pump.now, 1, 500ms, false);
  pump.pump();
  EXPECT_EQ(pump.count(Kind::resumed), 0);
  pump.at(1).resumed(pump.now, 1, 84ms, true);
  pump.at(0).resumed(pump.now, 1, 90ms, true);
  pump.pump();
  ASSERT_EQ(pump.count(Kind::resumed), 1);
  EXPECT_TRUE(pump.last(Kind::resumed)->redone);
  EXPECT_EQ(pump.last(Kind::resumed)->view.number, 2u);
}

TEST(CoordinatorTest, SeatsTellProgressOfMembersAndOfWhoWaits) {
  Three pump;
  pump.at(1).progress(12, 12, 340.5);
  pump.pass(1s);
  const auto members = pump.coordinator.members();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[1].stage, 12);
  EXPECT_EQ(members[1].rate, 340.5);
  EXPECT_TRUE(members[1].is_member);
}

TEST(CoordinatorTest, NonsenseIsCountedAndLeftAlone) {
  Three pump;
  pump.coordinator.handle(pump.now, {.kind = MessageKind::beat, .member = "worker/9.0.0"});
  pump.coordinator.handle(pump.now, {.kind = MessageKind::install, .member = "worker/0.0.0"});
  pump.coordinator.handle(pump.now, {.kind = MessageKind::ready, .member = "worker/7.0.0"});
  pump.coordinator.handle(pump.now,
                          {.kind = MessageKind::report, .member = "worker/0.0.0", .number = 99});
  EXPECT_EQ(pump.coordinator.ignored(), 3u);
  EXPECT_EQ(pump.coordinator.phase(), Phase::training);
}

}  // namespace
}  // namespace cohort::membership
