// What a client must not be able to do to the store, or to the store's other clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_protocol.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class HostileClient : public ::testing::Test {
 protected:
  static StoreServerOptions options(const Secret& secret) {
    return {.secret = secret, .max_clients = 40, .max_queued_bytes = 1 << 20};
  }
  std::unique_ptr<StoreClient> good_client() {
    return StoreClient::connect({.address = server_.address(), .secret = secret_, .name = "good"},
                                soon());
  }
  UniqueFd raw_connection() {
    return connect_to(Endpoint::tcp(server_.address().host, server_.address().port), soon());
  }
  // A member of the job that has gone mad: it knows the secret.
  struct Insider {
    UniqueFd fd;
    FrameEncoder encoder;
    FrameDecoder decoder;
    void send(std::string_view payload) {
      std::string wire;
      encoder.encode(payload, wire);
      send_all(fd.get(), wire, soon(), "store");
    }
    // The reason in the store's goodbye.
    std::string goodbye() {
      char buffer[65536];
      while (true) {
        while (auto payload = decoder.next()) {
          StoreResponse response = decode_store_response(*payload);
          if (response.status == StoreStatus::goodbye) return *response.value;
        }
        if (!wait_ready(fd.get(), POLLIN, soon())) return "none in time";
        IoResult result = read_some(fd.get(), buffer, sizeof buffer);
        if (result.status != IoResult::Status::progress) return "closed without a goodbye";
        decoder.feed({buffer, result.count});
      }
    }
  };
  Insider insider() {
    UniqueFd fd = raw_connection();
    auto result = client_handshake(
        fd.get(), {.protocol = kStoreProtocol, .secret = secret_, .identity = "mad"}, soon(), "s");
    return {std::move(fd), FrameEncoder(result.keys.client_to_server, 1 << 30),
            FrameDecoder(result.keys.server_to_client, kMaxStoreFrame)};
  }
  void expect_closed_without_a_byte(int fd) {
    ASSERT_TRUE(wait_ready(fd, POLLIN, soon()));
    char byte;
    auto status = read_some(fd, &byte, 1).status;
    EXPECT_TRUE(status == IoResult::Status::closed || status == IoResult::Status::failed);
  }
  void expect_healthy() {
    auto client = good_client();
    client->set("health", "ok", soon());
    EXPECT_EQ(client->get("health", soon()), "ok");
  }

  Secret secret_ = Secret::generate();
  StoreServer server_{options(secret_)};
};

TEST_F(HostileClient, AWrongOrMissingSecretDoesNotGetIn) {
  EXPECT_THROW(
      StoreClient::connect({.address = server_.address(), .secret = Secret::generate(), .name = ""},
                           soon()),
      AuthError);
  EXPECT_THROW(
      StoreClient::connect({.address = server_.address(), .secret = {}, .name = ""}, soon()),
      AuthError);
  EXPECT_EQ(server_.client_count(), 0u);
  expect_healthy();
}

TEST_F(HostileClient, GarbageIsDroppedUnanswered) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    UniqueFd fd = raw_connection();
    std::string bytes(1 + random() % 4000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    bytes[0] = 'x';
    send_all(fd.get(), bytes, soon(), "store");
    expect_closed_without_a_byte(fd.get());
  }
  expect_healthy();
}

TEST_F(HostileClient, FramesBeforeTheHandshakeAreNotLookedAt) {
  UniqueFd fd = raw_connection();
  std::string wire;
  FrameEncoder(Digest{}, 1 << 20).encode(encode(StoreRequest{.key = "k", .value = "v"}), wire);
  send_all(fd.get(), wire, soon(), "store");
  expect_closed_without_a_byte(fd.get());
  EXPECT_EQ(good_client()->try_get("k", soon()), std::nullopt);
}

TEST_F(HostileClient, ASlowOneIsDroppedInTimeAndDisturbsNobody) {
  UniqueFd slow = raw_connection();
  auto client = good_client();
  auto begin = std::chrono::steady_clock::now();
  std::string_view magic = "COHORT\r\n";
  // A byte a second, all of them right.
  for (std::size_t i = 0; i < magic.size(); ++i) {
    write_some(slow.get(), magic.substr(i, 1));
    auto asked = std::chrono::steady_clock::now();
    client->set("k", "v", soon());
    EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(1));
    if (wait_ready(slow.get(), POLLIN, Deadline::after(std::chrono::seconds(1)))) break;
  }
  expect_closed_without_a_byte(slow.get());
  auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took, kHandshakeTimeout - std::chrono::seconds(1));
  EXPECT_LT(took, kHandshakeTimeout + std::chrono::seconds(3));
}

TEST_F(HostileClient, SilentConnectionsDoNotKeepMembersOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(raw_connection());  // 40 are allowed
  expect_healthy();
}

TEST_F(HostileClient, AnOversizedFrameEndsTheConnectionWithAReason) {
  Insider mad = insider();
  mad.send(std::string(kMaxStoreFrame + 1, 'x'));
  EXPECT_THAT(mad.goodbye(), HasSubstr("a frame announces"));
  expect_healthy();
}

TEST_F(HostileClient, AMalformedRequestEndsTheConnectionWithAReason) {
  Insider mad = insider();
  mad.send("\x63garbage");
  EXPECT_THAT(mad.goodbye(), HasSubstr("unknown store operation 99"));
  Insider shorter = insider();
  shorter.send(encode(StoreRequest{}).substr(0, 10));
  EXPECT_THAT(shorter.goodbye(), HasSubstr("ends too early"));
  expect_healthy();
}

TEST_F(HostileClient, ATamperedFrameEndsTheConnection) {
  Insider mad = insider();
  std::string wire;
  mad.encoder.encode(encode(StoreRequest{.id = 1, .key = "k", .value = "v"}), wire);
  wire.back() = static_cast<char>(wire.back() ^ 1);
  send_all(mad.fd.get(), wire, soon(), "store");
  EXPECT_THAT(mad.goodbye(), HasSubstr("not authentic"));
  EXPECT_EQ(good_client()->try_get("k", soon()), std::nullopt);
}

TEST_F(HostileClient, OneThatNeverReadsIsDroppedWithAReason) {
  Insider mad = insider();
  mad.send(encode(StoreRequest{.op = StoreOp::watch, .id = 1, .key = "w"}));
  auto client = good_client();
  for (int i = 0; i < 1000 && server_.client_count() < 2; ++i) client->set("other", "", soon());
  ASSERT_EQ(server_.client_count(), 2u);
  std::string value(256 << 10, 'x');
  for (int i = 0; i < 400 && server_.client_count() == 2; ++i) client->set("w", value, soon());
  EXPECT_EQ(server_.client_count(), 1u);
  EXPECT_THAT(mad.goodbye(), HasSubstr("bytes unread"));
  expect_healthy();
}

TEST_F(HostileClient, OneThatAsksForMoreThanItReadsIsHeldBackNotDropped) {
  auto client = good_client();
  client->set("large", std::string(1 << 19, 'x'), soon());
  Insider eager = insider();
  for (std::uint64_t id = 1; id <= 200; ++id)
    eager.send(encode(StoreRequest{.op = StoreOp::try_get, .id = id, .key = "large"}));
  client->set("meanwhile", "served", soon());
  std::uint64_t answered = 0;
  char buffer[65536];
  while (answered < 200) {
    ASSERT_TRUE(wait_ready(eager.fd.get(), POLLIN, soon()));
    IoResult result = read_some(eager.fd.get(), buffer, sizeof buffer);
    ASSERT_EQ(result.status, IoResult::Status::progress) << "after " << answered;
    eager.decoder.feed({buffer, result.count});
    while (auto payload = eager.decoder.next())
      ASSERT_EQ(decode_store_response(*payload).id, ++answered);
  }
}

TEST_F(HostileClient, ARequestNumberUsedTwiceEndsTheConnection) {
  Insider mad = insider();
  for (int i = 0; i < 2; ++i)
    mad.send(encode(StoreRequest{.op = StoreOp::get, .id = 5, .key = "never"}));
  EXPECT_THAT(mad.goodbye(), HasSubstr("request number 5"));
}

}  // namespace
}  // namespace cohort::cluster
