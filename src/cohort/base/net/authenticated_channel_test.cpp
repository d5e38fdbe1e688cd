#include "cohort/base/net/authenticated_channel.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "cohort/base/error.h"
#include "cohort/base/net/tls_channel.h"

namespace cohort {
namespace {

HandshakeOptions handshake_of(const char* who, const std::optional<Secret>& secret) {
  return {.protocol = protocol_id("TEST"), .secret = secret, .identity = who};
}

class AuthenticatedPair {
 public:
  using Wrap = std::function<std::unique_ptr<Channel>(UniqueFd socket, bool server)>;

  AuthenticatedPair(const Wrap& wrap, const std::optional<Secret>& of_client,
                    const std::optional<Secret>& of_server) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client = std::make_unique<AuthenticatedChannel>(wrap(UniqueFd(fds[0]), false),
                                                    handshake_of("client", of_client), false);
    server = std::make_unique<AuthenticatedChannel>(wrap(UniqueFd(fds[1]), true),
                                                    handshake_of("server", of_server), true);
  }

  // Each side a step at a time; bounded, since each step moves or ends.
  void prove() {
    for (int step = 0; step < 20 && !(client->is_open() && server->is_open()); ++step) {
      client->set_up();
      server->set_up();
    }
  }

  std::unique_ptr<AuthenticatedChannel> client, server;
};

const AuthenticatedPair::Wrap kPlain = [](UniqueFd socket, bool) {
  return make_plain_channel(std::move(socket));
};

void expect_frames(AuthenticatedPair& pair) {
  FrameEncoder encoder = pair.client->make_encoder(100);
  FrameDecoder decoder = pair.server->make_decoder(100);
  std::string wire;
  encoder.encode("hello", wire);
  decoder.feed(wire);
  EXPECT_EQ(decoder.next(), "hello");
  FrameEncoder back = pair.server->make_encoder(100);
  FrameDecoder taken = pair.client->make_decoder(100);
  wire.clear();
  back.encode("welcome", wire);
  taken.feed(wire);
  EXPECT_EQ(taken.next(), "welcome");
}

TEST(AuthenticatedChannel, BothSidesAreProvenAndHaveTheKeysOfTheirFrames) {
  const Secret secret = Secret::generate();
  AuthenticatedPair pair(kPlain, secret, secret);
  EXPECT_FALSE(pair.server->heard_something());
  EXPECT_FALSE(pair.server->is_open());
  EXPECT_EQ(pair.server->wanted_events(), static_cast<std::uint32_t>(EPOLLIN));
  pair.prove();
  ASSERT_TRUE(pair.client->is_open() && pair.server->is_open());
  EXPECT_TRUE(pair.server->heard_something());
  EXPECT_EQ(pair.server->peer_identity(), "client");
  EXPECT_EQ(pair.client->peer_identity(), "server");
  expect_frames(pair);
}

TEST(AuthenticatedChannel, TheSameThroughTls) {
  const Secret secret = Secret::generate();
  TlsContext tls(Digest{1, 2, 3});
  AuthenticatedPair pair(
      [&](UniqueFd socket, bool server) { return tls.make_channel(std::move(socket), server); },
      secret, secret);
  pair.prove();
  ASSERT_TRUE(pair.client->is_open() && pair.server->is_open());
  expect_frames(pair);
}

TEST(AuthenticatedChannel, AnotherSecretIsRefusedByBoth) {
  AuthenticatedPair pair(kPlain, Secret::generate(), Secret::generate());
  EXPECT_THROW(pair.prove(), AuthError);
}

TEST(AuthenticatedChannel, AClientWithoutSecretIsToldWhyItIsRefused) {
  AuthenticatedPair pair(kPlain, std::nullopt, Secret::generate());
  pair.client->set_up();
  EXPECT_THROW(pair.server->set_up(), AuthError);
  try {
    pair.client->set_up();
    ADD_FAILURE() << "the client took it";
  } catch (const AuthError& error) {
    EXPECT_NE(error.message().find("demands the job's secret"), std::string::npos);
  }
}

TEST(AuthenticatedChannel, APeerThatLeavesBeforeItIsProvenIsGone) {
  const Secret secret = Secret::generate();
  AuthenticatedPair pair(kPlain, secret, secret);
  pair.client->set_up();
  pair.client.reset();
  EXPECT_THROW(for (int step = 0; step < 5; ++step) pair.server->set_up(), PeerError);
}

TEST(UnixChannel, ADescriptorTravelsWithTheBytesThatCarryIt) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  const auto near = make_unix_channel(UniqueFd(fds[0]));
  const auto far = make_unix_channel(UniqueFd(fds[1]));
  ASSERT_TRUE(near->passes_files());
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const UniqueFd reading(pipe[0]), writing(pipe[1]);
  char bytes[] = "abc";
  const iovec place{bytes, 3};
  near->attach(writing.get());
  ASSERT_EQ(near->write(&place, 1).count, 3u);
  ASSERT_EQ(near->write(&place, 1).count, 3u);
  char buffer[16];
  const iovec into{buffer, sizeof buffer};
  ASSERT_EQ(far->read(&into, 1).count, 3u) << "a read ends behind the write with a descriptor";
  const UniqueFd got = far->take_file();
  ASSERT_TRUE(got);
  struct stat sent, received;
  ASSERT_EQ(::fstat(writing.get(), &sent), 0);
  ASSERT_EQ(::fstat(got.get(), &received), 0);
  EXPECT_EQ(sent.st_ino, received.st_ino);
  ASSERT_EQ(far->read(&into, 1).count, 3u);
  EXPECT_FALSE(far->take_file());
}

}  // namespace
}  // namespace cohort
