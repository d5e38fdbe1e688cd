#include "cohort/membership/protocol/message.h"

#include <gtest/gtest.h>

#include <limits>

#include "cohort/base/data/counter_random.h"
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
  refused([](Message& m) { m.member.assign(kMaxMemberId + 1, 'x'); });
  refused([](Message& m) { m.text.assign(kMaxMessageText + 1, 'x'); });
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

}  // namespace
}  // namespace cohort::membership
