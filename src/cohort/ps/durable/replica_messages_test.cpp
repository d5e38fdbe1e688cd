#include "cohort/ps/durable/replica_messages.h"

#include <gtest/gtest.h>

#include "cohort/base/data/hex_test.h"
#include "cohort/base/error.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {
namespace {

std::vector<ReplicaMessage> samples() {
  ReplicaRecord record{.index = 4};
  record.record.target = 2;
  record.record.version = 9;
  record.record.learning_rates = {0.5};
  record.record.ledger = {{1, 8}};
  return {ReplicaHello{.job = "job", .server = 1, .servers = 2, .incarnation = 3, .fetch = true},
          ReplicaPiece{},
          ReplicaImageEnd{.index = 5, .pieces = 6},
          record,
          ReplicaWelcome{.has_copy = true, .incarnation = 7, .applied = 8},
          ReplicaAck{.index = 10},
          ReplicaRefused{.replaced = true, .reason = "a newer one"}};
}

TEST(ReplicaMessages, ComeBackAsTheyWereAndAreNoneOfTheWorkers) {
  for (const ReplicaMessage& message : samples()) {
    std::string control = encode(message);
    EXPECT_TRUE(is_replica_message(control));
    ReplicaMessage again = decode_replica_message(control);
    EXPECT_EQ(again.index(), message.index());
    EXPECT_EQ(encode(again), control);
  }
  EXPECT_FALSE(is_replica_message(encode(Message(Leave{}))));
}

TEST(ReplicaMessages, WhatIsTooShortOrTooLongIsRefused) {
  for (const ReplicaMessage& message : samples()) {
    std::string control = encode(message);
    for (std::size_t size = 0; size < control.size(); ++size)
      EXPECT_THROW(decode_replica_message(control.substr(0, size)), ProtocolError) << size;
    EXPECT_THROW(decode_replica_message(control + "x"), ProtocolError);
  }
  EXPECT_THROW(decode_replica_message(std::string(1, static_cast<char>(200))), ProtocolError);
}

TEST(ReplicaMessages, BytesOnTheWireStayAsTheyAre) {
  const std::vector<std::string> expected{
      "4001000000030000006a6f620100000002000000030000000000000001",
      "41",
      "4205000000000000000600000000000000",
      "4304000000000000000002000000090000000000000001000000000000000000e03f010000000100"
      "0000080000000000000000000000000000",
      "440107000000000000000800000000000000",
      "450a00000000000000",
      "46010b00000061206e65776572206f6e65"};
  std::vector<std::string> sent;
  for (const ReplicaMessage& message : samples()) sent.push_back(to_hex(encode(message)));
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace cohort::ps
