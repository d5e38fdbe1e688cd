#include "cohort/base/net/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint32_t kProtocol = protocol_id("TEST");
constexpr std::size_t kHello = 176, kServerHello = kHello + 32;  // as docs/store.md has them

HandshakeOptions options(std::optional<Secret> secret, std::string identity,
                         std::uint32_t protocol = kProtocol) {
  return {.protocol = protocol, .secret = std::move(secret), .identity = std::move(identity)};
}

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
  UniqueFd a, b;
};

struct Outcome {
  std::optional<HandshakeResult> client, server;
  std::string client_error, server_error;
};

Outcome shake(const HandshakeOptions& client, const HandshakeOptions& server) {
  Pair pair;
  Outcome outcome;
  std::thread thread([&] {
    try {
      outcome.server = server_handshake(pair.b.get(), server, soon(), "client");
    } catch (const Error& error) {
      outcome.server_error = error.what();
    }
    pair.b.reset();
  });
  try {
    outcome.client = client_handshake(pair.a.get(), client, soon(), "server");
  } catch (const Error& error) {
    outcome.client_error = error.what();
  }
  pair.a.reset();
  thread.join();
  return outcome;
}

TEST(Handshake, BothSidesGetTheSameKeysAndLearnWhoTheOtherIs) {
  Secret secret = Secret::generate();
  Outcome first = shake(options(secret, "worker/1"), options(secret, "store"));
  ASSERT_TRUE(first.client && first.server) << first.client_error << first.server_error;
  EXPECT_EQ(first.client->peer_identity, "store");
  EXPECT_EQ(first.server->peer_identity, "worker/1");
  EXPECT_EQ(first.client->keys.client_to_server, first.server->keys.client_to_server);
  EXPECT_EQ(first.client->keys.server_to_client, first.server->keys.server_to_client);
  EXPECT_NE(first.client->keys.client_to_server, first.client->keys.server_to_client);

  Outcome second = shake(options(secret, "worker/1"), options(secret, "store"));
  ASSERT_TRUE(second.client.has_value());
  EXPECT_NE(first.client->keys.client_to_server, second.client->keys.client_to_server);
}

TEST(Handshake, AWrongSecretIsRefusedByBothSides) {
  Outcome outcome =
      shake(options(Secret::generate(), "stranger"), options(Secret::generate(), "store"));
  EXPECT_FALSE(outcome.client || outcome.server);
  EXPECT_THAT(outcome.client_error, HasSubstr("does not know this job's secret"));
  EXPECT_THAT(outcome.client_error, HasSubstr("COHORT_SECRET_FILE"));
}

TEST(Handshake, SecretAndOpenNeverMeet) {
  Outcome open_client = shake(options(std::nullopt, "c"), options(Secret::generate(), "s"));
  EXPECT_FALSE(open_client.client || open_client.server);
  EXPECT_THAT(open_client.client_error, HasSubstr("demands the job's secret"));
  EXPECT_THAT(open_client.server_error, HasSubstr("it has no secret"));
  Outcome open_server = shake(options(Secret::generate(), "c"), options(std::nullopt, "s"));
  EXPECT_FALSE(open_server.client || open_server.server);
  EXPECT_THAT(open_server.client_error, HasSubstr("has no secret, but this task has one"));
}

TEST(Handshake, OpenMeetsOpen) {
  Outcome outcome = shake(options(std::nullopt, "c"), options(std::nullopt, "s"));
  EXPECT_TRUE(outcome.client && outcome.server);
}

TEST(Handshake, AnotherServiceOfTheSameJobIsRefused) {
  Secret secret = Secret::generate();
  Outcome outcome = shake(options(secret, "c"), options(secret, "s", protocol_id("DATA")));
  EXPECT_FALSE(outcome.client || outcome.server);
  EXPECT_THAT(outcome.client_error, HasSubstr("serves 'DATA', not 'TEST'"));
}

TEST(Handshake, AnIdentityIsCutAndMadePrintable) {
  Outcome outcome =
      shake(options(std::nullopt, "evil\n\x1b[2J" + std::string(500, 'x')), options({}, "s"));
  ASSERT_TRUE(outcome.server.has_value());
  EXPECT_EQ(outcome.server->peer_identity.size(), kMaxIdentity);
  EXPECT_EQ(outcome.server->peer_identity.substr(0, 9), "evil??[2J");
}

// What a client sent in one good handshake.
std::string record_client(const Secret& secret) {
  Pair pair;
  ServerHandshake server(options(secret, "store"));
  auto client = std::async(std::launch::async, [&] {
    return client_handshake(pair.a.get(), options(secret, "worker/1"), soon(), "server");
  });
  std::string recorded(kHello, '\0');
  recv_all(pair.b.get(), recorded.data(), kHello, soon(), "client");
  server.feed(recorded);
  send_all(pair.b.get(), server.take_output(), soon(), "client");
  char proof[32];
  recv_all(pair.b.get(), proof, 32, soon(), "client");
  server.feed({proof, 32});
  EXPECT_EQ(server.state(), ServerHandshake::State::done);
  client.get();
  return recorded + std::string(proof, 32);
}

TEST(Handshake, AReplayedClientIsRefused) {
  Secret secret = Secret::generate();
  std::string recorded = record_client(secret);
  ServerHandshake server(options(secret, "store"));
  server.feed(recorded);
  EXPECT_EQ(server.state(), ServerHandshake::State::failed);
  EXPECT_EQ(server.failure(), "it does not know the job's secret");
}

TEST(Handshake, AServerThatIsAskedToProveItselfDoesNotProveTheClient) {
  Secret secret = Secret::generate();
  // The attacker knows no secret. It sends the server's own proof back to it.
  ServerHandshake victim(options(secret, "store"));
  victim.feed(record_client(secret).substr(0, kHello));
  std::string answer = victim.take_output();
  ASSERT_EQ(answer.size(), kServerHello);
  victim.feed(answer.substr(kHello));
  EXPECT_EQ(victim.state(), ServerHandshake::State::failed);

  // Or it sends a client's hello back to the client, as if it were a server's.
  Pair pair;
  auto client = std::async(std::launch::async, [&] {
    return client_handshake(pair.a.get(), options(secret, "worker/1"), soon(), "server");
  });
  std::string hello(kHello, '\0');
  recv_all(pair.b.get(), hello.data(), kHello, soon(), "client");
  send_all(pair.b.get(), hello + answer.substr(kHello), soon(), "client");
  EXPECT_THROW(client.get(), AuthError);
}

TEST(Handshake, EveryChangedByteOfEitherMessageIsNoticed) {
  Secret secret = Secret::generate();
  std::string hello = record_client(secret).substr(0, kHello);
  for (std::size_t i = 0; i < kServerHello; ++i) {
    Pair pair;
    ServerHandshake server(options(secret, "store"));
    auto client = std::async(std::launch::async, [&] {
      return client_handshake(pair.a.get(), options(secret, "worker/1"), soon(), "server");
    });
    std::string bytes(kHello, '\0');
    recv_all(pair.b.get(), bytes.data(), kHello, soon(), "client");
    server.feed(bytes);
    std::string answer = server.take_output();
    answer[i] = static_cast<char>(answer[i] ^ 1);
    send_all(pair.b.get(), answer, soon(), "client");
    EXPECT_THROW(client.get(), Error) << "byte " << i << " of the server's hello";
  }
}

TEST(ServerHandshake, TakesBytesOneByOneAndLeavesWhatFollows) {
  Secret secret = Secret::generate();
  std::string recorded = record_client(secret);
  ServerHandshake server(options(secret, "store"));
  for (std::size_t i = 0; i < kHello; ++i) {
    EXPECT_TRUE(server.take_output().empty());
    EXPECT_EQ(server.feed(std::string_view(recorded).substr(i, 1)), 1u);
  }
  EXPECT_EQ(server.take_output().size(), kServerHello);
  EXPECT_EQ(server.feed(std::string(100, 'x')), 32u) << "one proof, then it is over";
  EXPECT_EQ(server.feed("more"), 0u);
}

TEST(ServerHandshake, GarbageFailsAtItsFirstWrongByteAndGetsNoAnswer) {
  ServerHandshake server(options(Secret::generate(), "store"));
  server.feed("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(server.state(), ServerHandshake::State::failed);
  EXPECT_TRUE(server.take_output().empty());
}

TEST(ServerHandshake, AHelloWhoseIdentityIsLongerThanItsFieldIsRefused) {
  Secret secret = Secret::generate();
  std::string hello = record_client(secret).substr(0, kHello);
  hello[48] = '\xff';
  hello[49] = '\xff';
  ServerHandshake server(options(secret, "store"));
  server.feed(hello);
  EXPECT_EQ(server.state(), ServerHandshake::State::failed);
}

}  // namespace
}  // namespace cohort
