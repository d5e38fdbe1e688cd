#include "cohort/cluster/store/store_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class StoreStateTest : public ::testing::Test {
 protected:
  StoreStateTest() {
    for (StoreClientId client : {1, 2, 3}) state_.connected(client, fmt::format("c{}", client));
  }
  // The request's number; answers appear in sent_.
  std::uint64_t ask(StoreClientId client, StoreRequest request) {
    request.id = ++last_id_;
    state_.handle(client, std::move(request), now_);
    return last_id_;
  }
  StoreStatus last_status() { return sent_.back().second.status; }

  StoreState::Clock::time_point now_{};
  std::vector<std::pair<StoreClientId, StoreResponse>> sent_;
  StoreState state_{[this](StoreClientId client, StoreResponse response) {
                      sent_.emplace_back(client, std::move(response));
                    },
                    {.total_bytes = 100,
                     .keys = 3,
                     .waits_per_client = 4,
                     .watches_per_client = 2,
                     .wills_per_client = 2}};
  std::uint64_t last_id_ = 0;
};

TEST_F(StoreStateTest, ABarrierWhoseCallersDisagreeIsRefusedForTheLateOne) {
  ask(1, {.op = StoreOp::barrier, .number = 2, .key = "b", .value = "worker/0"});
  EXPECT_TRUE(sent_.empty());
  ask(2, {.op = StoreOp::barrier, .number = 3, .key = "b", .value = "worker/1"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
  EXPECT_THAT(*sent_.back().second.value, HasSubstr("begun for 2 members, this call says 3"));
  ask(2, {.op = StoreOp::barrier, .number = 2, .key = "b", .value = "worker/0"});
  EXPECT_THAT(*sent_.back().second.value, HasSubstr("'worker/0' waits in barrier 'b' already"));
  ask(2, {.op = StoreOp::barrier, .number = 0, .key = "empty", .value = "worker/0"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
  sent_.clear();
  ask(2, {.op = StoreOp::barrier, .number = 2, .key = "b", .value = "worker/1"});
  EXPECT_EQ(sent_.size(), 2u);
  EXPECT_EQ(last_status(), StoreStatus::ok);
}

TEST_F(StoreStateTest, AConnectionThatEndsLateDoesNotSpeakForTheTaskThatCameBack) {
  ask(1, {.op = StoreOp::set_on_disconnect, .key = "end", .value = "lost"});
  ask(2, {.op = StoreOp::set_on_disconnect, .key = "end", .value = "lost again"});
  state_.disconnected(1);
  ask(3, {.op = StoreOp::try_get, .key = "end"});
  EXPECT_EQ(last_status(), StoreStatus::missing);
  state_.disconnected(2);
  ask(3, {.op = StoreOp::try_get, .key = "end"});
  EXPECT_EQ(*sent_.back().second.value, "lost again");
}

TEST_F(StoreStateTest, WaitsEndAtTheirOwnTime) {
  ask(1, {.op = StoreOp::get, .timeout_ms = 100, .key = "k"});
  ask(2, {.op = StoreOp::get, .timeout_ms = 50, .key = "k"});
  ask(3, {.op = StoreOp::get, .key = "k"});
  EXPECT_EQ(state_.next_expiry(), now_ + milliseconds(50));
  state_.expire(now_ + milliseconds(60));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].first, 2u);
  EXPECT_EQ(last_status(), StoreStatus::timed_out);
  state_.expire(now_ + milliseconds(100));
  EXPECT_EQ(sent_.size(), 2u);
  EXPECT_FALSE(state_.next_expiry().has_value());
  ask(1, {.op = StoreOp::set, .key = "k", .value = "v"});
  EXPECT_EQ(sent_[2].first, 3u);
  EXPECT_EQ(*sent_[2].second.value, "v");
}

TEST_F(StoreStateTest, AFullStoreRefusesAndKeepsWhatItHas) {
  ask(1, {.op = StoreOp::set, .key = "k", .value = std::string(90, 'x')});
  EXPECT_EQ(last_status(), StoreStatus::ok);
  ask(1, {.op = StoreOp::set, .key = "l", .value = std::string(20, 'x')});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
  ask(1, {.op = StoreOp::set, .key = "k", .value = std::string(99, 'y')});
  EXPECT_EQ(last_status(), StoreStatus::ok);
  ask(1, {.op = StoreOp::add, .number = 1, .key = "n"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
  ask(1, {.op = StoreOp::remove, .key = "k"});
  ask(1, {.op = StoreOp::set, .key = "l", .value = std::string(20, 'x')});
  EXPECT_EQ(last_status(), StoreStatus::ok);
}

TEST_F(StoreStateTest, TheNumberOfKeysIsBounded) {
  for (std::string key : {"a", "b", "c", "a"}) ask(1, {.op = StoreOp::set, .key = key});
  EXPECT_EQ(last_status(), StoreStatus::ok);
  ask(1, {.op = StoreOp::set, .key = "d"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
}

TEST_F(StoreStateTest, WhatAClientMayHoldIsBounded) {
  for (int i = 0; i < 4; ++i) ask(1, {.op = StoreOp::get, .key = "never"});
  EXPECT_THROW(ask(1, {.op = StoreOp::get, .key = "never"}), ProtocolError);
  for (int i = 0; i < 2; ++i) ask(2, {.op = StoreOp::watch, .key = "w"});
  EXPECT_EQ(last_status(), StoreStatus::ok);
  ask(2, {.op = StoreOp::watch, .key = "w"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
  for (std::string key : {"a", "b"}) ask(3, {.op = StoreOp::set_on_disconnect, .key = key});
  EXPECT_EQ(last_status(), StoreStatus::ok);
  ask(3, {.op = StoreOp::set_on_disconnect, .key = "c"});
  EXPECT_EQ(last_status(), StoreStatus::invalid);
}

TEST_F(StoreStateTest, AClientThatLeftIsSentNothingMore) {
  ask(1, {.op = StoreOp::get, .timeout_ms = 10, .key = "k"});
  ask(1, {.op = StoreOp::watch, .key = "k"});
  ask(1, {.op = StoreOp::barrier, .timeout_ms = 10, .number = 2, .key = "b", .value = "m"});
  sent_.clear();
  state_.disconnected(1);
  ask(2, {.op = StoreOp::set, .key = "k", .value = "v"});
  state_.expire(now_ + milliseconds(100));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].first, 2u);
  // Its arrival does not count any more either.
  ask(2, {.op = StoreOp::barrier, .number = 2, .key = "b", .value = "m"});
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(StoreStateTest, AWatchThatEndedIsSentNothingMore) {
  auto watch = ask(1, {.op = StoreOp::watch, .key = ""});
  ask(2, {.op = StoreOp::set, .key = "k", .value = "v"});
  ask(1, {.op = StoreOp::unwatch, .number = static_cast<std::int64_t>(watch)});
  sent_.clear();
  ask(2, {.op = StoreOp::set, .key = "k", .value = "w"});
  EXPECT_EQ(sent_.size(), 1u);
}

}  // namespace
}  // namespace cohort::cluster
