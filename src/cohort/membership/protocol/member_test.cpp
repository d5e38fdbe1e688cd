#include "cohort/membership/protocol/member.h"

#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

const MemberInfo kInfo{"worker/1", 0, 0, "host", 7};

Message install_view(std::uint64_t number, std::vector<MemberInfo> members,
                     std::uint64_t base = 0) {
  ViewChange change;
  change.base = base;
  change.number = number;
  change.added = std::move(members);
  change.stages = {{static_cast<std::uint32_t>(change.added.size()), kNoState}};
  return {.kind = MessageKind::install,
          .member = "worker/1.0.0",
          .number = number,
          .change = std::make_shared<const ViewChange>(change)};
}

Message to_member(MessageKind kind, std::uint64_t number = 0, bool planned = false) {
  return {.kind = kind, .member = "worker/1.0.0", .number = number, .planned = planned};
}

// A member that trains in view 1 since time 0, with a lease of 2 s.
struct Training : Member {
  Training() : Member(kInfo) {
    ready(0s, "{}");
    Message lease = to_member(MessageKind::lease, 1);
    lease.duration = 2s;
    handle(0s, lease);
    handle(0s, to_member(MessageKind::propose, 1));
    handle(0s, install_view(1, {kInfo}));
    take_messages();
  }
};

std::vector<MessageKind> kinds(const std::vector<Message>& messages) {
  std::vector<MessageKind> kinds;
  for (const Message& message : messages) kinds.push_back(message.kind);
  return kinds;
}

TEST(MemberTest, SaysThatItIsReadyAndReportsByItselfWhileItWaits) {
  Member member(kInfo);
  member.ready(0s, R"({"batch": 64})");
  auto said = member.take_messages();
  ASSERT_EQ(kinds(said), (std::vector{MessageKind::ready, MessageKind::beat}));
  EXPECT_EQ(said[0].text, R"({"batch": 64})");
  EXPECT_EQ(said[0].info, kInfo);
  member.handle(1ms, to_member(MessageKind::propose, 4));
  said = member.take_messages();
  ASSERT_EQ(kinds(said), (std::vector{MessageKind::report}));
  EXPECT_EQ(said[0].number, 4u);
  EXPECT_EQ(said[0].stage, kNoState);
  member.handle(2ms, install_view(4, {kInfo}));
  EXPECT_EQ(member.state(), State::training);
  EXPECT_FALSE(member.may_commit(2ms)) << "no lease has come yet";
}

TEST(MemberTest, LeaseCountsFromWhenTheBeatWasSent) {
  Training member;
  EXPECT_TRUE(member.may_commit(1999ms));
  EXPECT_FALSE(member.may_commit(2s));
  member.tick(500ms);
  member.tick(1s);
  Message lease = to_member(MessageKind::lease, 2);
  lease.duration = 2s;
  member.handle(1900ms, lease);
  EXPECT_TRUE(member.may_commit(2499ms));
  EXPECT_FALSE(member.may_commit(2500ms));
  member.handle(2600ms, lease);
  EXPECT_FALSE(member.may_commit(2600ms)) << "an answer counts once";
  lease.number = 77;
  member.handle(2600ms, lease);
  EXPECT_FALSE(member.may_commit(2600ms)) << "and only to a beat that was sent";
}

TEST(MemberTest, BeatsFourTimesALeaseAndTellsProgress) {
  Training member;
  EXPECT_EQ(member.next_tick(), Time(500ms));
  member.progress(3, 3, 12.5);
  member.tick(499ms);
  EXPECT_TRUE(member.take_messages().empty());
  member.tick(500ms);
  const auto said = member.take_messages();
  ASSERT_EQ(kinds(said), (std::vector{MessageKind::beat}));
  EXPECT_EQ(said[0].step, 3);
  EXPECT_EQ(said[0].rate, 12.5);
  EXPECT_EQ(member.next_tick(), Time(1s));
}

TEST(MemberTest, PlannedChangeLetsTheStageEndUnplannedDoesNot) {
  Training member;
  member.handle(1ms, to_member(MessageKind::propose, 2, true));
  EXPECT_EQ(member.proposal(), 2u);
  EXPECT_FALSE(member.must_drop());
  EXPECT_TRUE(member.may_commit(1ms));
  member.handle(1ms, to_member(MessageKind::propose, 3, false));
  EXPECT_TRUE(member.must_drop());
  EXPECT_FALSE(member.may_commit(1ms));
  member.handle(1ms, to_member(MessageKind::propose, 4, true));
  EXPECT_TRUE(member.must_drop()) << "what is lost is not found again";
}

TEST(MemberTest, CommitsNothingOnceItHasReportedAndReportsAgainByItself) {
  Training member;
  member.report(1ms, 5);
  EXPECT_EQ(member.state(), State::resting);
  EXPECT_FALSE(member.may_commit(1ms));
  EXPECT_TRUE(member.take_messages().empty()) << "nothing is proposed yet";
  member.handle(2ms, to_member(MessageKind::propose, 2));
  member.handle(2ms, to_member(MessageKind::propose, 3));
  const auto said = member.take_messages();
  ASSERT_EQ(kinds(said), (std::vector{MessageKind::report, MessageKind::report}));
  EXPECT_EQ(said[1].number, 3u);
  EXPECT_EQ(said[1].stage, 5);
  EXPECT_EQ(said[1].base, 1u);
  member.handle(3ms, install_view(3, {kInfo}));
  EXPECT_TRUE(member.may_commit(3ms));
}

TEST(MemberTest, TakesNoViewThatIsOldOrWithoutItOrAChangeOfAnother) {
  Training member;
  member.report(1ms, 5);
  member.handle(1ms, to_member(MessageKind::propose, 3));
  member.handle(1ms, install_view(1, {kInfo}));
  member.handle(1ms, install_view(3, {{"worker/2", 0, 0, "host", 8}}));
  member.handle(1ms, install_view(3, {kInfo}, /*base=*/2));
  EXPECT_EQ(member.state(), State::resting);
  EXPECT_EQ(member.view().number, 1u);
}

TEST(MemberTest, TrainingMemberTakesNoViewThatItDidNotReportFor) {
  Training member;
  member.handle(1ms, install_view(2, {kInfo}));
  EXPECT_EQ(member.view().number, 1u);
}

TEST(MemberTest, EvictedComesAgainUnderANewIdAndHearsNothingForTheOldOne) {
  Training member;
  member.handle(1ms, to_member(MessageKind::evicted));
  EXPECT_EQ(member.state(), State::evicted);
  EXPECT_TRUE(member.must_drop());
  EXPECT_FALSE(member.may_commit(1ms));
  member.rejoin(2ms);
  EXPECT_EQ(member.info().id(), "worker/1.0.1");
  EXPECT_EQ(member.state(), State::waiting);
  EXPECT_EQ(member.view().number, 0u);
  EXPECT_EQ(kinds(member.take_messages()), (std::vector{MessageKind::ready, MessageKind::beat}));
  member.handle(3ms, to_member(MessageKind::evicted));
  EXPECT_EQ(member.state(), State::waiting);
  EXPECT_THROW(member.rejoin(3ms), InvalidInput);
}

TEST(MemberTest, WhatIsNotAnsweredIsSaidAgainWithTheNextBeat) {
  Member waiting(kInfo);
  waiting.ready(0s, "{}");
  waiting.take_messages();
  waiting.tick(250ms);
  EXPECT_EQ(kinds(waiting.take_messages()), (std::vector{MessageKind::ready, MessageKind::beat}));

  Training broken;
  broken.broken(1ms, "reset");
  broken.report(1ms, 3);
  broken.take_messages();
  broken.tick(500ms);
  EXPECT_EQ(kinds(broken.take_messages()), (std::vector{MessageKind::broken, MessageKind::beat}));
  broken.handle(501ms, to_member(MessageKind::propose, 2));
  broken.take_messages();
  broken.tick(1s);
  EXPECT_EQ(kinds(broken.take_messages()), (std::vector{MessageKind::report, MessageKind::beat}));

  Training finished;
  finished.finished(1ms, 9);
  finished.take_messages();
  finished.tick(500ms);
  EXPECT_EQ(kinds(finished.take_messages()),
            (std::vector{MessageKind::finished, MessageKind::beat}));
}

TEST(MemberTest, FinishedMemberRestsOnlyWhenItsWorkerSaysSo) {
  Training member;
  member.finished(1ms, 9);
  member.take_messages();
  member.handle(2ms, to_member(MessageKind::propose, 2, true));
  EXPECT_TRUE(member.take_messages().empty());
  member.report(3ms, 9);
  EXPECT_EQ(kinds(member.take_messages()), (std::vector{MessageKind::report}));
}

TEST(MemberTest, HasNothingToSayWhenItIsOver) {
  Training member;
  member.handle(1ms, to_member(MessageKind::over));
  EXPECT_EQ(member.state(), State::over);
  EXPECT_EQ(member.next_tick(), std::nullopt);
  member.tick(1h);
  EXPECT_TRUE(member.take_messages().empty());
}

}  // namespace
}  // namespace cohort::membership
