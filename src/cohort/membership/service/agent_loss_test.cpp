// What agents do when connections, leases or the coordinator are lost.
#include <gmock/gmock.h>

#include <future>

#include "cohort/base/message_of_test.h"
#include "cohort/membership/service/elastic_job_test.h"

namespace cohort::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = MembershipEvent::Kind;

constexpr milliseconds kLease{400};

std::future<View> enter_later(Worker& worker) {
  return std::async(std::launch::async, [&worker] { return worker->enter("{}", soon()); });
}

std::future<View> next_view_later(Worker& worker, std::int64_t stage, const std::string& why = "") {
  return std::async(std::launch::async,
                    [&worker, stage, why] { return worker->next_view(stage, why, soon()); });
}

class AgentLossTest : public ::testing::Test {
 protected:
  AgentLossTest() : job_({.least = 1, .most = 3, .initial = 2, .lease = kLease}) {
    auto a = enter_later(a_), b = enter_later(b_);
    EXPECT_EQ(a.get(), b.get());
  }

  ElasticJob job_;
  Worker a_{job_, 0};
  Worker b_{job_, 1};
};

TEST_F(AgentLossTest, AConnectionThatEndsStopsTheOthersAtOnceAndTheLeaseSettlesIt) {
  Time begin = steady_now();
  b_.die();
  Time dropped = a_.wait_drop().at;
  EXPECT_LT(dropped - begin, kLease);
  View view = a_->next_view(3, "", soon());
  EXPECT_THAT(ids_of(view), ElementsAre("worker/0.0.0"));
  EXPECT_EQ(job_.wait_event(Kind::evicted).member, "worker/1.0.0");
  std::printf("connection ended: dropped after %.2f ms, next view after %.0f ms (lease %d ms)\n",
              std::chrono::duration<double, std::milli>(dropped - begin).count(),
              std::chrono::duration<double, std::milli>(steady_now() - begin).count(),
              static_cast<int>(kLease.count()));
}

TEST_F(AgentLossTest, ADeathThatIsToldAfterTheConnectionEndedDoesNotWaitForTheLease) {
  b_.die();
  a_.wait_drop();
  Time begin = steady_now();
  auto view = next_view_later(a_, 3);
  job_.service().lost("worker/1", 0, "it was killed");
  EXPECT_THAT(ids_of(view.get()), ElementsAre("worker/0.0.0"));
  EXPECT_LT(steady_now() - begin, kLease / 2);
}

TEST_F(AgentLossTest, AWorkerThatWasStartedAgainJoinsUnderAnotherId) {
  b_.die();
  job_.service().lost("worker/1", 0, "it was killed");
  a_.wait_drop();
  a_->next_view(3, "", soon());
  Worker again(job_, 1, 1);
  auto entered = enter_later(again);
  job_.wait_event(Kind::proposed, 2);
  auto view = next_view_later(a_, 4);
  EXPECT_THAT(ids_of(entered.get()), ElementsAre("worker/0.0.0", "worker/1.1.0"));
  EXPECT_EQ(view.get().stage(), 4);
}

TEST_F(AgentLossTest, BeatsKeepTheLeaseForAsLongAsTheWorkerComputes) {
  const Time later = steady_now() + 3 * kLease;
  job_.wait_heard("worker/0.0.0", later);
  job_.wait_heard("worker/1.0.0", later);
  a_->expect_commit(soon());
  b_->expect_commit(soon());
  EXPECT_EQ(a_.drops() + b_.drops(), 0u);
}

TEST_F(AgentLossTest, NothingIsCommittedWhenTheCoordinatorIsSilent) {
  job_.kill_service();
  a_.wait_lease_end();
  EXPECT_THAT(message_of<ViewEnded>([&] { a_->expect_commit(Deadline::after(milliseconds(50))); }),
              HasSubstr("it has no lease"));
  EXPECT_THAT(message_of<PeerError>(
                  [&] { a_->next_view(1, "no lease", Deadline::after(milliseconds(50))); }),
              HasSubstr("the coordinator of the job does not answer"));
}

TEST_F(AgentLossTest, AnotherViewThatDoesNotComeIsATimeoutWhileTheCoordinatorAnswers) {
  EXPECT_THAT(
      message_of<TimeoutError>([&] { a_->next_view(1, "", Deadline::after(milliseconds(100))); }),
      HasSubstr("worker/0.0.0 waited in vain for its next view"));
}

TEST_F(AgentLossTest, ACoordinatorThatIsGoneIsToldInAPlainSentence) {
  auto view = next_view_later(b_, 1);
  job_.kill_store();
  EXPECT_THAT(a_.wait_drop().why, HasSubstr("coordinator is gone"));
  EXPECT_THAT(message_of<PeerError>([&] { a_->expect_commit(soon()); }),
              HasSubstr("worker/0.0.0 has lost the coordinator of its job"));
  EXPECT_THAT(message_of<PeerError>([&] { view.get(); }), HasSubstr("cohort resume"));
  EXPECT_THROW(a_->finish(1, soon()), PeerError);
  EXPECT_THAT(job_.wait_event(Kind::failed).text, HasSubstr("lost the job's store"));
  Time begin = steady_now();
  a_->leave(soon());
  b_.die();
  job_.kill_service();
  EXPECT_LT(steady_now() - begin, seconds(2));  // not the deadlines' 20
}

TEST_F(AgentLossTest, AWorkerThatWasCutOffIsShutOutAndComesAgainAsANewcomer) {
  b_->cut_off(3 * kLease);
  // The others go on without it when its lease has ended, not before.
  Time begin = steady_now();
  a_.wait_drop();
  EXPECT_GT(steady_now() - begin, kLease / 2);
  View alone = a_->next_view(6, "", soon());
  EXPECT_THAT(ids_of(alone), ElementsAre("worker/0.0.0"));
  a_->expect_commit(soon());

  // What it commits now would be another history.
  EXPECT_THROW(b_->expect_commit(soon()), ViewEnded);
  EXPECT_THAT(b_.wait_drop().why, HasSubstr("nothing was heard of it"));
  auto back = next_view_later(b_, 6, "all_reduce broke");
  job_.wait_event(Kind::proposed, 2);
  auto joined = next_view_later(a_, 7);
  View view = back.get();
  EXPECT_EQ(view, joined.get());
  EXPECT_THAT(ids_of(view), ElementsAre("worker/0.0.0", "worker/1.0.1"));
  EXPECT_EQ(view.stage(), 7);
  EXPECT_TRUE(view.is_behind(1));
  EXPECT_EQ(b_->info().rejoins, 1);
  b_->expect_commit(soon());

  // It beats under its new name, and its end is still noticed.
  job_.wait_heard("worker/1.0.1", steady_now() + 2 * kLease);
  b_->expect_commit(soon());
  Time ended = steady_now();
  b_.die();
  EXPECT_LT(a_.wait_drop(1).at - ended, kLease / 2);
}

TEST_F(AgentLossTest, WhatIsSaidWhileCutOffIsHeardAfterwards) {
  constexpr Time kCut = kLease / 2;
  Time begin = steady_now();
  b_->cut_off(std::chrono::duration_cast<milliseconds>(kCut));
  auto b = next_view_later(b_, 3, "all_reduce broke");
  EXPECT_GE(a_.wait_drop().at - begin, kCut);
  auto a = next_view_later(a_, 3);
  EXPECT_EQ(a.get(), b.get());
}

TEST_F(AgentLossTest, ACutShorterThanTheLeaseCostsNothing) {
  b_->cut_off(kLease / 2);
  job_.wait_heard("worker/1.0.0", steady_now() + 2 * kLease);
  b_->expect_commit(soon());
  EXPECT_EQ(a_.drops() + b_.drops(), 0u);
}

TEST_F(AgentLossTest, AnAgentEndsAtOnceWhileItIsCutOff) {
  a_->cut_off(seconds(30));
  a_.wait_lease_end();  // it beats no more: its thread waits for the cut's end
  Time begin = steady_now();
  a_.die();
  EXPECT_LT(steady_now() - begin, seconds(5));  // not the cut's 30
}

}  // namespace
}  // namespace cohort::membership
