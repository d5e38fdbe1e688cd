#include "cohort/membership/protocol/message.h"

#include <gtest/gtest.h>

#include <limits>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/counter_random.h"
#include "cohort/base/data/hex_test.h"
#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

const std::vector<MessageKind> kKinds = {
    MessageKind::ready,   MessageKind::beat,     MessageKind::report,  MessageKind::broken,
    MessageKind::resumed, MessageKind::finished, MessageKind::leaving, MessageKind::lease,
    MessageKind::propose, MessageKind::install,  MessageKind::evicted, MessageKind::dismissed,
    MessageKind::refused, MessageKind::over};

View some_view() {
  View view;
  view.number = 4;
  view.reason = "worker/9 joined";
  for (int i = 0; i < 5; ++i)
    view.members.push_back({{"worker/" + std::to_string(i), i, 0, "host", 100 + i}, i < 3 ? 7 : 8});
  view.members.push_back({{"worker/9", 0, 2, "other", 12}, kNoState});
  return view;
}

Message full(MessageKind kind) {
  Message message;
  message.kind = kind;
  message.member = "worker/3.1.2";
  message.number = 1ull << 60;
  message.base = 17;
  message.stage = 123456789012;
  message.step = 99;
  message.rate = 1234.5;
  message.duration = std::chrono::seconds(2);
  message.planned = true;
  message.text = std::string("a\0b\xff", 4);
  if (kind == MessageKind::ready) message.info = {"worker/3", 1, 2, "host", 4321};
  if (kind == MessageKind::install)
    message.change = std::make_shared<const ViewChange>(change_between(View(), {}, some_view()));
  return message;
}

TEST(MessageTest, EveryKindSurvivesTheWire) {
  for (const MessageKind kind : kKinds)
    EXPECT_EQ(decode_message(encode(full(kind))), full(kind)) << to_string(kind);
}

TEST(MessageTest, EveryTruncationAndEveryAdditionIsRefused) {
  for (const MessageKind kind : kKinds) {
    const std::string bytes = encode(full(kind));
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode_message(bytes.substr(0, size)), ProtocolError);
    EXPECT_THROW(decode_message(bytes + "x"), ProtocolError);
  }
}

TEST(MessageTest, ChangedBytesAreDecodedOrRefusedAndNothingElse) {
  CounterRandom random(1, RandomStream::kUser);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(full(kKinds[random.below(kKinds.size())]));
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips)
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    try {
      const Message message = decode_message(bytes);
      EXPECT_EQ(encode(message), bytes);
      if (message.change) apply(View(), *message.change);
    } catch (const ProtocolError&) {
    }
  }
}

TEST(MessageTest, CountsThatTheBytesCannotHoldAskForNoMemory) {
  std::string bytes = encode(full(MessageKind::install));
  const std::string change = encode(full(MessageKind::over));  // all that stands before the change
  for (int i = 0; i < 4; ++i) bytes[change.size() + 16 + static_cast<std::size_t>(i)] = '\x7f';
  EXPECT_THROW(decode_message(bytes), ProtocolError);
}

TEST(MessageTest, NumbersThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change) {
    Message message = full(MessageKind::beat);
    change(message);
    EXPECT_THROW(decode_message(encode(message)), ProtocolError);
  };
  refused([](Message& m) { m.rate = std::numeric_limits<double>::quiet_NaN(); });
  refused([](Message& m) { m.rate = std::numeric_limits<double>::infinity(); });
  refused([](Message& m) { m.stage = -2; });
  refused([](Message& m) { m.step = -1; });
  refused([](Message& m) { m.duration = std::chrono::nanoseconds(-1); });
  refused([](Message& m) { m.kind = static_cast<MessageKind>(19); });
}

TEST(MessageTest, TextsOverTheirBoundsAreNeitherSentNorTaken) {
  Message message = full(MessageKind::beat);
  message.member.assign(kMaxMemberId + 1, 'x');
  EXPECT_THROW(encode(message), InvalidInput);
  message = full(MessageKind::beat);
  message.text.assign(kMaxMessageText + 1, 'x');
  EXPECT_THROW(encode(message), InvalidInput);

  // The same from a peer that sends them all the same; one byte less is taken.
  const std::string bytes = encode(full(MessageKind::beat));
  const std::size_t member_at = 1, text_at = bytes.size() - 4 - full(MessageKind::beat).text.size();
  const auto with_text = [&](std::size_t at, std::size_t old_size, std::size_t size) {
    std::string text;
    ByteWriter(text).text(std::string(size, 'x'));
    std::string changed = bytes;
    return changed.replace(at, 4 + old_size, text);
  };
  const std::size_t member = full(MessageKind::beat).member.size();
  const std::size_t text = full(MessageKind::beat).text.size();
  EXPECT_EQ(decode_message(with_text(member_at, member, kMaxMemberId)).member.size(), kMaxMemberId);
  EXPECT_THROW(decode_message(with_text(member_at, member, kMaxMemberId + 1)), ProtocolError);
  EXPECT_EQ(decode_message(with_text(text_at, text, kMaxMessageText)).text.size(), kMaxMessageText);
  EXPECT_THROW(decode_message(with_text(text_at, text, kMaxMessageText + 1)), ProtocolError);
}

TEST(ViewChangeTest, SaysWhatDiffersAndNoMore) {
  const View base = some_view();
  View next = base;
  next.number = 6;
  next.reason = "worker/1 was killed";
  next.members.erase(next.members.begin() + 1);
  for (ViewMember& member : next.members) member.stage = 8;
  next.members.push_back({{"worker/7", 0, 0, "host", 1}, kNoState});
  const ViewChange change = change_between(base, {1}, next);
  EXPECT_EQ(change.added.size(), 1u);
  EXPECT_EQ(change.stages.size(), 2u);
  EXPECT_EQ(apply(base, change), next);
}

TEST(ViewChangeTest, ChangeOfAnotherViewIsRefused) {
  const View base = some_view();
  View next = base;
  next.number = 6;
  next.members.pop_back();
  const ViewChange good = change_between(base, {5}, next);
  View other = base;
  other.number = 3;
  EXPECT_THROW(apply(other, good), ProtocolError);
  ViewChange bad = good;
  bad.removed = {6};
  EXPECT_THROW(apply(base, bad), ProtocolError);
  bad.removed = {5, 5};
  EXPECT_THROW(apply(base, bad), ProtocolError);
  bad = good;
  bad.stages.front().members = 4'000'000'000;
  EXPECT_THROW(apply(base, bad), ProtocolError);
  bad.stages.clear();
  EXPECT_THROW(apply(base, bad), ProtocolError);
}

TEST(MessageTest, BytesOnTheWireStayAsTheyAre) {
  EXPECT_EQ(to_hex(encode(full(MessageKind::ready))),
            "010c000000776f726b65722f332e312e3200000000000000101100000000000000141a99be1c0000"
            "00630000000000000000000000004a934000943577000000000104000000610062ff08000000776f"
            "726b65722f33010000000200000004000000686f7374e110000000000000");
  EXPECT_EQ(to_hex(encode(full(MessageKind::install))),
            "160c000000776f726b65722f332e312e3200000000000000101100000000000000141a99be1c0000"
            "00630000000000000000000000004a934000943577000000000104000000610062ff000000000000"
            "00000400000000000000000000000600000008000000776f726b65722f3000000000000000000400"
            "0000686f7374640000000000000008000000776f726b65722f31010000000000000004000000686f"
            "7374650000000000000008000000776f726b65722f32020000000000000004000000686f73746600"
            "00000000000008000000776f726b65722f33030000000000000004000000686f7374670000000000"
            "000008000000776f726b65722f34040000000000000004000000686f737468000000000000000800"
            "0000776f726b65722f390000000002000000050000006f746865720c000000000000000300000003"
            "000000070000000000000002000000080000000000000001000000ffffffffffffffff0f00000077"
            "6f726b65722f39206a6f696e6564");
  EXPECT_EQ(to_hex(encode(full(MessageKind::over))),
            "1a0c000000776f726b65722f332e312e3200000000000000101100000000000000141a99be1c0000"
            "00630000000000000000000000004a934000943577000000000104000000610062ff");
}

}  // namespace
}  // namespace cohort::membership
