// What hostile and broken networks do to the tcp messenger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/transport/faulty/messenger.h"
#include "cohort/transport/tcp/messenger.h"
#include "cohort/transport/tcp/proxy_test.h"
#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Deadline within(int ms) { return Deadline::after(std::chrono::milliseconds(ms)); }

class TcpFault : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Messenger> make(int rank, const Secret& secret) {
    return make_messenger({.rank = rank,
                           .size = 2,
                           .id = "g",
                           .secret = secret,
                           .tls = GetParam(),
                           .silence = silence_},
                          meeting_, within(5000));
  }

  // Rank 1 sends `bytes` to rank 0; returns what each saw: {receiver, sender}.
  template <typename Expected>
  std::pair<std::string, std::string> exchange(std::size_t bytes, int ms) {
    auto receiver = make(0, secret_), sender = make(1, secret_);
    Bytes out(bytes), in(bytes);
    auto other = std::async(std::launch::async, [&] {
      return message_of<Expected>([&] {
        sender->send(0, Lane::collective, out)->wait(bytes, within(ms));
        sender->receive(0, Lane::collective, out)->wait(bytes, within(ms));
      });
    });
    const std::string seen = message_of<Expected>(
        [&] { receiver->receive(1, Lane::collective, in)->wait(bytes, within(ms)); });
    return {seen, other.get()};
  }

  std::shared_ptr<ProxyRendezvous> meeting_ = std::make_shared<ProxyRendezvous>();
  const Secret secret_ = Secret::generate();
  std::chrono::milliseconds silence_{0};
};

INSTANTIATE_TEST_SUITE_P(Variants, TcpFault, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "tls" : "plain"; });

TEST_P(TcpFault, ACutConnectionIsNoticedAtOnceOnBothSides) {
  meeting_->close_at = 1'000'000;
  const auto start = Deadline::Clock::now();
  const auto [receiver, sender] = exchange<PeerError>(5'000'000, 30'000);
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(5));
  EXPECT_THAT(receiver, HasSubstr("rank 1"));
  EXPECT_THAT(sender, HasSubstr("rank 0"));
}

// A rank that has too many connections drops some that have proven nothing yet.
TEST_P(TcpFault, APeerThatIsDroppedBeforeItIsProvenDialsAgain) {
  meeting_->drop = 3;
  auto receiver = make(0, secret_), sender = make(1, secret_);
  Bytes out(100, std::byte{7}), in(100);
  auto other = std::async(std::launch::async, [&] {
    sender->send(0, Lane::collective, out)->wait(100, within(20'000));
  });
  receiver->receive(1, Lane::collective, in)->wait(100, within(20'000));
  other.get();
  EXPECT_EQ(in, out);
}

TEST_P(TcpFault, ANetworkThatSwallowsBytesIsNoticedLongBeforeTheDeadline) {
  silence_ = std::chrono::milliseconds(400);
  auto receiver = make(0, secret_), sender = make(1, secret_);
  Bytes out(8), in(8);
  auto other = std::async(std::launch::async, [&] {
    sender->send(0, Lane::collective, out)->wait(8, within(5000));
    return message_of<PeerError>(
        [&] { sender->receive(0, Lane::collective, out)->wait(8, within(60'000)); });
  });
  receiver->receive(1, Lane::collective, in)->wait(8, within(5000));
  // A peer that computes for long is not taken for one that is cut off.
  std::this_thread::sleep_for(3 * silence_);
  meeting_->hold = true;
  const auto begin = Deadline::Clock::now();
  EXPECT_THAT(message_of<PeerError>([&] {
                receiver->receive(1, Lane::collective, in)->wait(in.size(), within(60'000));
              }),
              HasSubstr("rank 1 was cut off"));
  EXPECT_THAT(other.get(), HasSubstr("rank 0"));
  EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(20));
}

TEST_P(TcpFault, BytesSwallowedInOneDirectionAreNoticedOnBothSides) {
  silence_ = std::chrono::milliseconds(400);
  for (const bool up : {true, false}) {
    meeting_ = std::make_shared<ProxyRendezvous>();
    auto receiver = make(0, secret_), sender = make(1, secret_);
    Bytes out(8), in(8);
    auto other = std::async(std::launch::async, [&] {
      sender->send(0, Lane::collective, out)->wait(8, within(5000));
      return message_of<PeerError>(
          [&] { sender->receive(0, Lane::collective, out)->wait(8, within(60'000)); });
    });
    receiver->receive(1, Lane::collective, in)->wait(8, within(5000));
    (up ? meeting_->swallow_up : meeting_->swallow_down) = true;
    const auto begin = Deadline::Clock::now();
    const std::string seen = message_of<PeerError>(
        [&] { receiver->receive(1, Lane::collective, in)->wait(in.size(), within(60'000)); });
    const std::string other_seen = other.get();
    EXPECT_THAT(seen, HasSubstr("rank 1 was cut off"));
    EXPECT_THAT(other_seen, HasSubstr("rank 0 was cut off"));
    EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(20));
  }
}

TEST_P(TcpFault, ASilentNetworkEndsAtTheDeadline) {
  auto receiver = make(0, secret_), sender = make(1, secret_);
  Bytes bytes(3'000'000), first(8);
  auto other = std::async(std::launch::async, [&] {
    const Bytes eight(8);
    Bytes never(100);
    sender->send(0, Lane::collective, eight)->wait(8, within(5000));
    return message_of<TimeoutError>(
        [&] { sender->receive(0, Lane::collective, never)->wait(100, within(600)); });
  });
  receiver->receive(1, Lane::collective, first)->wait(8, within(5000));
  meeting_->hold = true;
  EXPECT_THAT(message_of<TimeoutError>([&] {
                receiver->receive(1, Lane::collective, bytes)->wait(bytes.size(), within(300));
              }),
              HasSubstr("rank 1"));
  EXPECT_THAT(other.get(), HasSubstr("rank 0"));
}

TEST_P(TcpFault, DamagedPayloadIsReportedNotDelivered) {
  meeting_->damage_at = 2'000'000;
  // Under TLS the sender may read no more than that the connection ended.
  const auto [receiver, sender] =
      GetParam() ? exchange<Error>(5'000'000, 30'000) : exchange<ProtocolError>(5'000'000, 30'000);
  EXPECT_THAT(receiver, HasSubstr("damaged"));
  EXPECT_THAT(receiver, HasSubstr("rank 1"));
  if (!GetParam()) {
    EXPECT_THAT(sender, HasSubstr("damaged"));
  }
}

TEST_P(TcpFault, AnotherSecretIsRefused) {
  auto receiver = make(0, secret_), sender = make(1, Secret::generate());
  Bytes bytes(10);
  auto other = std::async(std::launch::async, [&] {
    return message_of<TimeoutError>(
        [&] { receiver->receive(1, Lane::collective, bytes)->wait(10, within(800)); });
  });
  const std::string text = message_of<AuthError>(
      [&] { sender->send(0, Lane::collective, bytes)->wait(10, within(5000)); });
  EXPECT_THAT(text, HasSubstr("rank 0"));
  EXPECT_THAT(other.get(), HasSubstr("last refused"));
}

TEST_P(TcpFault, AReplayedConnectionIsTurnedAwayAndTheGroupGoesOn) {
  auto receiver = make(0, secret_), sender = make(1, secret_);
  Bytes out(1000), in(1000);
  const auto swap = [&] {
    auto send = sender->send(0, Lane::collective, out);
    auto other = std::async(std::launch::async, [&] { send->wait(1000, within(5000)); });
    receiver->receive(1, Lane::collective, in)->wait(1000, within(5000));
    other.get();
  };
  swap();
  const std::string record = meeting_->recorded();
  ASSERT_GT(record.size(), 1000u);
  UniqueFd thief = connect_to(Endpoint::tcp("127.0.0.1", meeting_->real_port(0)), within(5000));
  send_all(thief.get(), record, within(5000), "rank 0");
  for (int i = 0; i < 20; ++i) swap();
  // Rank 0 works only while it waits; this wait lasts until it has hung up on the thief.
  auto last = receiver->receive(1, Lane::collective, in);
  auto waiting = std::async(std::launch::async, [&] { last->wait(1000, within(10'000)); });
  char answer[4096];
  const Deadline limit = within(5000);
  while (!limit.expired()) {
    if (!wait_ready(thief.get(), POLLIN, limit)) break;
    const IoResult got = read_some(thief.get(), answer, sizeof answer);
    if (got.status == IoResult::Status::closed || got.status == IoResult::Status::failed) break;
  }
  EXPECT_FALSE(limit.expired()) << "the replayed connection was kept";
  sender->send(0, Lane::collective, out)->wait(1000, within(5000));
  waiting.get();
}

// A peer that knows the secret, and then breaks the protocol.
class TcpInsider : public ::testing::Test {
 protected:
  void SetUp() override {
    honest_ = make_messenger({.rank = 0, .size = 2, .id = "g", .secret = secret_}, meeting_,
                             within(5000));
  }

  // Connects as rank 1 and sends what `make` makes with its session's encoder.
  std::future<void> intrude(const std::function<std::string(FrameEncoder&)>& make) {
    return std::async(std::launch::async, [this, make] {
      const int port = std::stoi(meeting_->get("g/tcp/0", within(5000)));
      UniqueFd socket = connect_to(Endpoint::tcp("127.0.0.1", port), within(5000));
      const auto result = client_handshake(
          socket.get(),
          {.protocol = kProtocol,
           .secret = secret_,
           .identity = encode(Purpose{group_tag("g"), 1, 2, Lane::collective, 0, 1, "rank 1"})},
          within(5000), "rank 0");
      FrameEncoder encoder(result.keys.client_to_server, 1 << 20);
      send_all(socket.get(), make(encoder), within(5000), "rank 0");
    });
  }

  template <typename Expected>
  std::string receive() {
    Bytes bytes(100);
    return message_of<Expected>(
        [&] { honest_->receive(1, Lane::collective, bytes)->wait(100, within(5000)); });
  }

  const Secret secret_ = Secret::generate();
  std::shared_ptr<MemoryRendezvous> meeting_ = std::make_shared<MemoryRendezvous>();
  std::unique_ptr<Messenger> honest_;
};

TEST_F(TcpInsider, ATruncatedFrameIsALostPeer) {
  auto intruder = intrude([](FrameEncoder& encoder) {
    std::string bytes;
    encoder.encode(encode(ChunkHeader{0, 100, 0, 100, 0}), bytes);
    return bytes.substr(0, 40);
  });
  EXPECT_THAT(receive<PeerError>(), HasSubstr("rank 1"));
  intruder.get();
}

TEST_F(TcpInsider, ATruncatedPayloadIsALostPeer) {
  auto intruder = intrude([](FrameEncoder& encoder) {
    std::string bytes;
    encoder.encode(encode(ChunkHeader{0, 100, 0, 100, 0}), bytes);
    return bytes + std::string(60, 'x');
  });
  EXPECT_THAT(receive<PeerError>(), HasSubstr("rank 1"));
  intruder.get();
}

TEST_F(TcpInsider, AnOversizedFrameIsRefusedBeforeItIsRead) {
  auto intruder = intrude([](FrameEncoder&) { return std::string(28, '\xff'); });
  EXPECT_THAT(receive<ProtocolError>(), HasSubstr("4294967295"));
  intruder.get();
}

TEST_F(TcpInsider, AnOversizedMessageIsRefused) {
  auto intruder = intrude([](FrameEncoder& encoder) {
    std::string bytes;
    encoder.encode(encode(ChunkHeader{0, std::uint64_t{1} << 60, 0, kChunkBytes, 0}), bytes);
    return bytes;
  });
  EXPECT_THAT(receive<ProtocolError>(), HasSubstr("1152921504606846976"));
  intruder.get();
}

TEST_F(TcpInsider, AChunkThatIsNotDueIsRefused) {
  auto intruder = intrude([](FrameEncoder& encoder) {
    std::string bytes;
    encoder.encode(encode(ChunkHeader{0, 100, 0, 101, 0}), bytes);
    return bytes;
  });
  EXPECT_THAT(receive<ProtocolError>(), HasSubstr("does not fit"));
  intruder.get();
}

TEST_F(TcpInsider, AForgedMacIsRefused) {
  auto intruder = intrude([](FrameEncoder& encoder) {
    std::string bytes;
    encoder.encode(encode(ChunkHeader{0, 100, 0, 100, 0}), bytes);
    bytes[bytes.size() - 1] ^= 1;
    return bytes;
  });
  EXPECT_THAT(receive<ProtocolError>(), HasSubstr("MAC"));
  intruder.get();
}

TEST_F(TcpInsider, StrangersAreTurnedAwayAndDoNotDisturb) {
  const int port = std::stoi(meeting_->get("g/tcp/0", within(5000)));
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(connect_to(Endpoint::tcp("127.0.0.1", port), within(5000)));
    if (i % 2 == 0)
      send_all(strangers.back().get(), "GET / HTTP/1.1\r\n\r\n", within(5000), "rank 0");
  }
  const auto peer =
      make_messenger({.rank = 1, .size = 2, .id = "g", .secret = secret_}, meeting_, within(5000));
  Bytes out(100, std::byte{7}), in(100);
  auto other = std::async(std::launch::async,
                          [&] { peer->send(0, Lane::collective, out)->wait(100, within(5000)); });
  honest_->receive(1, Lane::collective, in)->wait(100, within(5000));
  other.get();
  EXPECT_EQ(in, out);
}

// The decorator that other modules' tests use.
class Faulty : public ::testing::Test {
 protected:
  void start(faulty::Faults faults) {
    const auto make = [&](int rank) {
      return make_messenger({.rank = rank, .size = 2, .id = "g"}, meeting_, within(5000));
    };
    receiver_ = make(0);
    sender_ = faulty::make_messenger(make(1), faults);
  }
  std::shared_ptr<MemoryRendezvous> meeting_ = std::make_shared<MemoryRendezvous>();
  std::unique_ptr<Messenger> receiver_, sender_;
  Bytes out_ = Bytes(64, std::byte{1}), in_ = Bytes(64);

  void pass() {
    auto other = std::async(std::launch::async, [&] {
      sender_->send(0, Lane::collective, out_)->wait(64, within(2000));
    });
    receiver_->receive(1, Lane::collective, in_)->wait(64, within(2000));
    other.get();
  }
};

TEST_F(Faulty, DelaysAMessage) {
  start({.delay = std::chrono::milliseconds(60)});
  const auto begin = Deadline::Clock::now();
  pass();
  EXPECT_GE(Deadline::Clock::now() - begin, std::chrono::milliseconds(60));
  EXPECT_EQ(in_, out_);
}

TEST_F(Faulty, CorruptsTheMessageThatItWasToldTo) {
  start({.corrupt = 1});
  pass();
  EXPECT_EQ(in_, out_);
  pass();
  EXPECT_NE(in_, out_);
}

TEST_F(Faulty, DropsAMessageSoThatThePeerWaitsForIt) {
  start({.drop = 0});
  sender_->send(0, Lane::collective, out_)->wait(64, within(100));
  message_of<TimeoutError>(
      [&] { receiver_->receive(1, Lane::collective, in_)->wait(64, within(150)); });
}

TEST_F(Faulty, CutsBothDirectionsWithoutAWord) {
  start({.cut = 1});
  pass();
  message_of<TimeoutError>([&] { sender_->send(0, Lane::collective, out_)->wait(64, within(50)); });
  message_of<TimeoutError>(
      [&] { sender_->receive(0, Lane::collective, in_)->wait(64, within(50)); });
  message_of<TimeoutError>(
      [&] { receiver_->receive(1, Lane::collective, in_)->wait(64, within(150)); });
}

}  // namespace
}  // namespace cohort::transport::tcp
