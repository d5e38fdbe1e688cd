#include "cohort/ps/wire/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "cohort/base/data/hex_test.h"
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

TEST(Messages, BytesOnTheWireStayAsTheyAre) {
  const std::vector<std::string> expected{
      "000300000003000000050000000100000004000000887766554433221100ffeeddccbbaa990102",
      "0107000000000000000d0000007b22626c6f636b73223a5b5d7d",
      "020c0000000900000000000000",
      "0302000000",
      "04",
      "050800000000000000000000000000d03f020000009a9999999999b93f7b14ae47e17a843f",
      "0605000000080000000000000007000000000000000010000000000000",
      "070100000008000000000000000700000000000000",
      "0808000000000000000300000002000000000000000000f03f000000000000004000000000010000"
      "000000000000000840020000000e0000006561726c792073746f7070696e67",
      "094d0000000000000003000000000000000400000000000000",
      "0a4e00000000000000010000000900000000000000",
      "0b4f00000000000000",
      "0c500000000000000003000000010000000000000002000000000000000300000000000000",
      "0d5100000000000000",
      "0e",
      "0f0104000000737065630600000000000000",
      "10050000000800000000000000090000000000000002",
      "11010000000800000000000000090000000000000001",
      "1252000000000000000900000000000000",
      "1308000000000000000102000000000000000000f83f00000000000000c00400000073746f70",
      "145300000000000000",
      "1554000000000000000200000004000000000000000500000000000000",
      "1655000000000000000600000007000000000000000800000000000000",
      "175600000000000000",
      "185700000000000000020000007b7d",
      "190011000000746865206d6f64656c2064696666657273200000004769766520616c6c20776f726b"
      "657273207468652073616d6520666c6167732e",
      "1a",
      "1b0c000000636f686f72742d70732f3766"};
  std::vector<std::string> sent;
  for (const Message& message : one_of_each()) sent.push_back(to_hex(encode(message)));
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace cohort::ps
