#include "cohort/ps/durable/replica_link.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/base/message_of_test.h"
#include "cohort/ps/durable/durable_state_test.h"
#include "cohort/ps/durable/replica_server_test.h"

namespace cohort::ps {
namespace {

using namespace std::chrono_literals;

int free_port() { return local_endpoint(listen_on(Endpoint::tcp("127.0.0.1", 0)).get()).port(); }

// Server 0 trains; server 1 holds its copy, on the same loop.
class Replica : public testing::Test {
 protected:
  Replica() {
    options_.servers = {{"127.0.0.1", 1}, {"127.0.0.1", free_port()}};
    options_.job = "job";
    options_.secret = Secret::generate();
  }
  void start_holder() {
    ReplicaOptions own = options_;
    own.server = 1;
    holder_ = std::make_unique<ReplicaServer>(loop_, own);
  }
  // What a server started anew gets.
  std::string fetch(ReplicaOptions& options) {
    UniqueFd file = DurableState::memory();
    auto state = recover_from_replica(loop_, options, file.get(), DurableState::options(),
                                      Deadline::after(10s));
    return state ? DurableState(std::move(file), std::move(state)).snapshot() : "nothing";
  }
  std::string fetch() {
    ReplicaOptions options = options_;
    return fetch(options);
  }

  EventLoop loop_;
  ReplicaOptions options_;
  std::unique_ptr<ReplicaServer> holder_;
  DurableState state_ = DurableState::begin();
};

TEST_F(Replica, WhatIsAcknowledgedIsInTheCopy) {
  start_holder();
  EXPECT_EQ(fetch(options_), "nothing");
  auto link = open_replica_link(loop_, options_);
  EXPECT_TRUE(link->wants_snapshot());
  save(loop_, state_, *link);
  EXPECT_FALSE(link->wants_snapshot());
  train(loop_, state_, *link, 7);
  EXPECT_EQ(fetch(), DurableState::snapshot_after(7));
}

TEST_F(Replica, TheCopyTravelsThroughTls) {
  options_.tls = true;
  start_holder();
  auto link = open_replica_link(loop_, options_);
  save(loop_, state_, *link);
  train(loop_, state_, *link, 4);
  EXPECT_EQ(fetch(), DurableState::snapshot_after(4));
}

TEST_F(Replica, AnotherSaveIsDoneWithoutAnotherImage) {
  start_holder();
  auto link = open_replica_link(loop_, options_);
  save(loop_, state_, *link);
  train(loop_, state_, *link, 1);
  const int pieces = holder_->pieces();
  save(loop_, state_, *link);
  EXPECT_EQ(holder_->pieces(), pieces);
}

TEST_F(Replica, APrimaryThatIsStartedAnewGoesOnFromItsCopy) {
  start_holder();
  {
    auto link = open_replica_link(loop_, options_);
    save(loop_, state_, *link);
    train(loop_, state_, *link, 3);
  }
  UniqueFd file = DurableState::memory();
  auto state = recover_from_replica(loop_, options_, file.get(), DurableState::options(),
                                    Deadline::after(10s));
  ASSERT_TRUE(state);
  DurableState again(std::move(file), std::move(state));
  auto link = open_replica_link(loop_, options_);
  save(loop_, again, *link);
  train(loop_, again, *link, 3);
  EXPECT_EQ(fetch(), DurableState::snapshot_after(6));
}

TEST_F(Replica, AHolderThatIsStartedAnewGetsTheStateAndWhatIsUnderWay) {
  start_holder();
  auto link = open_replica_link(loop_, options_);
  save(loop_, state_, *link);
  train(loop_, state_, *link, 3);
  testing::internal::CaptureStderr();
  for (int target = 0; target < DurableState::kTargets; ++target) {
    holder_.reset();
    bool durable = false;
    link->append(state_.prepare(target), [&] { durable = true; });
    EXPECT_FALSE(run_until(
        loop_, [&] { return durable; }, target == 0 ? 1500ms : 50ms));
    start_holder();
    EXPECT_TRUE(run_until(loop_, [&] { return durable; }));
    state_.publish(target);
  }
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(fmt::format("ps/1 (127.0.0.1:{}) does not hold the copy of ps/0",
                                  options_.servers[1].port)),
            said.npos)
      << said;
  EXPECT_NE(said.find("holds the copy again"), said.npos) << said;
  train(loop_, state_, *link, 3);
  EXPECT_EQ(state_.snapshot(), DurableState::snapshot_after(9));
  EXPECT_EQ(fetch(), DurableState::snapshot_after(9));
}

TEST_F(Replica, AfterALostConnectionOnlyWhatIsMissingTravels) {
  start_holder();
  auto link = open_replica_link(loop_, options_);
  save(loop_, state_, *link);
  const int pieces = holder_->pieces();
  for (int i = 0; i < 5; ++i) {
    bool durable = false;
    const int target = state_.next_target();
    link->append(state_.prepare(target), [&] { durable = true; });
    if (i % 2 == 0) loop_.run_once(Deadline::after(10ms));
    holder_->cut();
    ASSERT_TRUE(run_until(loop_, [&] { return durable; })) << i;
    state_.publish(target);
  }
  EXPECT_EQ(holder_->pieces(), pieces);
  EXPECT_EQ(fetch(), DurableState::snapshot_after(5));
}

TEST_F(Replica, AServerWhosePlaceIsTakenIsRefusedAndEnds) {
  start_holder();
  ReplicaOptions first = options_, second = options_;
  fetch(first);
  auto link = open_replica_link(loop_, first);
  save(loop_, state_, *link);
  train(loop_, state_, *link, 2);
  fetch(second);
  EXPECT_GT(second.incarnation, first.incarnation);
  bool durable = false;
  link->append(state_.prepare(state_.next_target()), [&] { durable = true; });
  std::string said = message_of<Error>([&] {
    run_until(
        loop_, [&] { return durable; }, 3000ms);
  });
  EXPECT_NE(said.find("a newer process is ps/0 now"), said.npos) << said;
  EXPECT_FALSE(durable);
  EXPECT_EQ(fetch(), DurableState::snapshot_after(2));
}

TEST_F(Replica, AHolderThatStartsLaterIsWaitedFor) {
  loop_.call_after(200ms, [this] { start_holder(); });
  EXPECT_EQ(fetch(), "nothing");
}

TEST_F(Replica, AHolderThatNeverComesIsNamed) {
  UniqueFd file = DurableState::memory();
  std::string said = message_of<TimeoutError>([&] {
    recover_from_replica(loop_, options_, file.get(), DurableState::options(),
                         Deadline::after(200ms));
  });
  EXPECT_NE(said.find(fmt::format("ps/1 (127.0.0.1:{})", options_.servers[1].port)), said.npos)
      << said;
  EXPECT_NE(said.find("Connection refused"), said.npos) << said;
}

TEST_F(Replica, AnotherSecretIsRefusedAtOnce) {
  start_holder();
  options_.secret = Secret::generate();
  EXPECT_THROW(fetch(), AuthError);
}

TEST_F(Replica, AnotherJobGetsNothing) {
  start_holder();
  options_.job = "another";
  UniqueFd file = DurableState::memory();
  EXPECT_THROW(recover_from_replica(loop_, options_, file.get(), DurableState::options(),
                                    Deadline::after(300ms)),
               TimeoutError);
}

TEST_F(Replica, OneServerAloneIsRefused) {
  options_.servers.resize(1);
  std::string said = message_of<InvalidInput>([&] { open_replica_link(loop_, options_); });
  EXPECT_NE(said.find("needs at least 2 parameter servers, got 1"), said.npos) << said;
}

TEST_F(Replica, ServersThatStartTogetherAnswerEachOtherWhileTheyAsk) {
  options_.servers[0].port = free_port();
  auto ask = [&](int server, bool& found) {
    EventLoop loop;
    ReplicaOptions own = options_;
    own.server = server;
    ReplicaServer holder(loop, own);
    UniqueFd file = DurableState::memory();
    found = recover_from_replica(loop, own, file.get(), {.server = server, .servers = 2},
                                 Deadline::after(10s)) != nullptr;
    // The other may ask later than we were answered.
    run_until(
        loop, [&] { return false; }, 500ms);
  };
  bool found[2] = {true, true};
  std::thread other([&] { ask(1, found[1]); });
  ask(0, found[0]);
  other.join();
  EXPECT_FALSE(found[0]);
  EXPECT_FALSE(found[1]);
}

}  // namespace
}  // namespace cohort::ps
