#include "cohort/ps/wire/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::ps {
namespace {

// One of each, every field unlike its default, in the order of Message.
std::vector<Message> one_of_each() {
  return {
      Hello{3, 3, 5, 1, 4, 0x1122334455667788, 0x99aabbccddeeff00, true, WireType::bf16},
      Init{7, R"({"blocks":[]})"},
      SetSlice{12, 9},
      TablePiece{2},
      Commit{},
      StepBegin{8, 0.25, {0.1, 0.01}},
      Push{5, 8, 7, 4096},
      RowsPush{1, 8, 7},
      StepEnd{8, {{1, 2}, {}, {3}}, 2, "early stopping"},
      Pull{77, 3, 4},
      RowsPull{78, 1, 9},
      FreezeRequest{79},
      SnapshotRequest{80, {1, 2, 3}},
      AskStats{81},
      Leave{},
      Welcome{true, "spec", 6},
      Values{5, 8, 9, Values::Reason::dropped_not_finite},
      RowsDone{1, 8, 9, Values::Reason::dropped_late},
      Rows{82, 9},
      StepDone{8, true, {1.5, -2}, "stop"},
      PullDone{83},
      Frozen{84, {4, 5}},
      SliceState{85, 6, 7, 8},
      SnapshotDone{86},
      Stats{87, "{}"},
      Refused{false, "the model differs", "Give all workers the same flags."},
      AskLocalName{},
      LocalName{"cohort-ps/7f"},
  };
}

TEST(Messages, EveryKindComesBackAsItWas) {
  const auto messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i].index(), i);
    const std::string bytes = encode(messages[i]);
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]), i);
    EXPECT_TRUE(decode_message(bytes) == messages[i]) << "message " << i;
  }
}

TEST(Messages, AStringIsUsedAgain) {
  std::string control = "what was there before";
  encode_into(PullDone{3}, control);
  EXPECT_EQ(control, encode(PullDone{3}));
}

TEST(Messages, EveryCutIsNoticed) {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_message(bytes.substr(0, size)), ProtocolError)
          << "message " << message.index() << " cut to " << size;
    EXPECT_THROW(decode_message(bytes + '\0'), ProtocolError) << "message " << message.index();
  }
}

TEST(Messages, AnUnknownKindIsNamed) {
  const std::string bytes(1, static_cast<char>(kFirstReplicaByte));
  EXPECT_NE(message_of<ProtocolError>([&] { decode_message(bytes); }).find("unknown kind 64"),
            std::string::npos);
}

TEST(Messages, AnAnnouncedLengthTakesNoMemory) {
  std::string bytes = encode(SnapshotRequest{1, {}});
  bytes[bytes.size() - 4] = static_cast<char>(0xff);  // 65535 numbers, and none there
  bytes[bytes.size() - 3] = static_cast<char>(0xff);
  EXPECT_THROW(decode_message(bytes), ProtocolError);
}

TEST(Messages, ATextOverTheBoundIsNotSent) {
  EXPECT_THROW(encode(StepEnd{1, {}, 0, std::string(1 << 20, 'x')}), InvalidInput);
}

TEST(Messages, DamagedBytesAreAMessageOrAProtocolError) {
  std::mt19937 random(5);
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = bytes;
      for (int change = 0; change <= round % 3; ++change)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      try {
        // What is accepted is exactly what encode() writes.
        EXPECT_EQ(encode(decode_message(damaged)), damaged);
      } catch (const ProtocolError&) {
      }
    }
  }
}

}  // namespace
}  // namespace cohort::ps
