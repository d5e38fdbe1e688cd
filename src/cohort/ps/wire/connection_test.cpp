#include "cohort/ps/wire/connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <deque>
#include <random>
#include <vector>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/base/net/socket.h"

namespace cohort::ps {
namespace {

struct Got {
  std::string control;
  std::string bulk;
  UniqueFd file;
};

// Sends what is queued, keeps what comes.
class Owner : public ConnectionOwner {
 public:
  void opened(const std::string& identity) override { peer = identity; }
  std::optional<std::byte*> place(std::string_view, std::size_t bulk_bytes) override {
    ++places_asked;
    if (!has_memory) return std::nullopt;
    memory.resize(bulk_bytes);
    return reinterpret_cast<std::byte*>(memory.data());
  }
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override {
    got.push_back({std::string(control),
                   std::string(reinterpret_cast<const char*>(bulk), bulk_bytes), std::move(file)});
  }
  bool produce(Outgoing& next) override {
    ++produces_asked;
    if (queue.empty()) return false;
    sending = std::move(queue.front());
    queue.pop_front();
    next.control = sending.control;
    next.bulk = reinterpret_cast<const std::byte*>(sending.bulk.data());
    next.bulk_bytes = sending.bulk.size();
    next.file = sending.file.get();
    return true;
  }

  std::string peer;
  bool has_memory = true;
  int places_asked = 0;
  int produces_asked = 0;
  std::string memory;
  Got sending;
  std::deque<Got> queue;
  std::vector<Got> got;
};

HandshakeOptions options(const char* identity, std::optional<Secret> secret = {}) {
  return {.protocol = kProtocol, .secret = std::move(secret), .identity = identity};
}

// Drives both as an event loop would, until neither has anything to do.
void pump(std::vector<Connection*> connections) {
  for (int idle = 0; idle < 2;) {
    std::vector<pollfd> entries;
    for (Connection* connection : connections) {
      short events = 0;
      if ((connection->wanted_events() & EPOLLIN) != 0) events |= POLLIN;
      if ((connection->wanted_events() & EPOLLOUT) != 0) events |= POLLOUT;
      entries.push_back({connection->fd(), events, 0});
    }
    idle = ::poll(entries.data(), entries.size(), 5) > 0 ? 0 : idle + 1;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].revents != 0)
        connections[i]->on_events(static_cast<std::uint32_t>(entries[i].revents));
  }
}

enum class Kind { unix_socket, tcp, tls };

class ConnectionTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { connect(options("worker/3"), options("ps/0")); }

  void connect(const HandshakeOptions& of_client, const HandshakeOptions& of_server) {
    client.reset();
    server.reset();
    if (GetParam() == Kind::unix_socket) {
      int fds[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
      client = std::make_unique<Connection>(UniqueFd(fds[0]), of_client, false, worker);
      server = std::make_unique<Connection>(UniqueFd(fds[1]), of_server, true, ps);
      return;
    }
    UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
    const Deadline soon = Deadline::after(std::chrono::seconds(5));
    UniqueFd near = connect_to(local_endpoint(listener.get()), soon);
    UniqueFd far = accept_from(listener.get(), soon);
    client =
        std::make_unique<Connection>(channel(std::move(near), false), of_client, false, worker);
    server = std::make_unique<Connection>(channel(std::move(far), true), of_server, true, ps);
  }

  std::unique_ptr<Channel> channel(UniqueFd socket, bool accepted) {
    if (GetParam() == Kind::tls) return tls.make_channel(std::move(socket), accepted);
    return make_plain_channel(std::move(socket));
  }

  void send(Connection& from, Owner& owner, std::string control, std::string bulk = {},
            UniqueFd file = {}) {
    owner.queue.push_back({std::move(control), std::move(bulk), std::move(file)});
    from.wake();
  }
  void pump_both() { pump({client.get(), server.get()}); }

  TlsContext tls{Digest{1, 2, 3}};
  Owner worker, ps;
  std::unique_ptr<Connection> client, server;
};

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  if (info.param == Kind::unix_socket) return "Unix";
  return info.param == Kind::tcp ? "Tcp" : "Tls";
}
INSTANTIATE_TEST_SUITE_P(All, ConnectionTest,
                         testing::Values(Kind::unix_socket, Kind::tcp, Kind::tls), kind_name);

std::string noise(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST_P(ConnectionTest, EachSideLearnsWhoTheOtherIs) {
  pump_both();
  EXPECT_TRUE(client->is_open());
  EXPECT_TRUE(server->is_open());
  EXPECT_EQ(worker.peer, "ps/0");
  EXPECT_EQ(ps.peer, "worker/3");
}

TEST_P(ConnectionTest, MessagesOfAnySizeArriveInOrderBothWays) {
  const std::size_t sizes[] = {0, 1, 511, 512, 513, 16 << 10, 256 << 10, (256 << 10) + 1, 3 << 20};
  for (std::size_t size : sizes) {
    send(*client, worker, "to server " + std::to_string(size), noise(size));
    send(*server, ps, "to client " + std::to_string(size), noise(size));
  }
  send(*client, worker, noise(1 << 20));  // a long control part
  pump_both();
  ASSERT_EQ(ps.got.size(), std::size(sizes) + 1);
  ASSERT_EQ(worker.got.size(), std::size(sizes));
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    EXPECT_EQ(ps.got[i].control, "to server " + std::to_string(sizes[i]));
    EXPECT_TRUE(ps.got[i].bulk == noise(sizes[i])) << sizes[i];
    EXPECT_TRUE(worker.got[i].bulk == noise(sizes[i])) << sizes[i];
  }
  EXPECT_TRUE(ps.got.back().control == noise(1 << 20));
}

TEST_P(ConnectionTest, ThousandsOfSmallMessagesArrive) {
  for (int i = 0; i < 5000; ++i) send(*client, worker, std::to_string(i), i % 3 == 0 ? "xyz" : "");
  pump_both();
  ASSERT_EQ(ps.got.size(), 5000u);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(ps.got[i].control, std::to_string(i));
}

TEST_P(ConnectionTest, WithoutMemoryItReadsNoMoreUntilResumed) {
  ps.has_memory = false;
  send(*client, worker, "first", noise(2 << 20));
  send(*client, worker, "second");
  pump_both();
  EXPECT_TRUE(ps.got.empty());
  EXPECT_EQ(server->wanted_events() & EPOLLIN, 0u);
  ps.has_memory = true;
  server->resume();
  pump_both();
  ASSERT_EQ(ps.got.size(), 2u);
  EXPECT_TRUE(ps.got[0].bulk == noise(2 << 20));
  EXPECT_EQ(ps.got[1].control, "second");
}

TEST_P(ConnectionTest, AMessageIsAskedForOnlyWhenTheSocketTakesMore) {
  pump_both();
  const int before = worker.produces_asked;
  for (int i = 0; i < 64; ++i) send(*client, worker, "block", noise(1 << 20));
  for (int i = 0; i < 64; ++i) client->on_events(EPOLLOUT);  // the peer does not read
  EXPECT_LT(worker.produces_asked - before, 40);
  pump_both();
  EXPECT_EQ(ps.got.size(), 64u);
}

TEST_P(ConnectionTest, ACallDoesABoundedAmountOfWork) {
  pump_both();
  for (int i = 0; i < 16; ++i) send(*client, worker, "x", noise(256 << 10));
  std::size_t most = 0;
  for (int i = 0; i < 1000 && ps.got.size() < 16; ++i) {
    client->on_events(EPOLLOUT);
    const std::size_t before = ps.got.size();
    server->on_events(EPOLLIN);
    most = std::max(most, ps.got.size() - before);
  }
  EXPECT_EQ(ps.got.size(), 16u);
  EXPECT_LE(most, 5u);
}

TEST_P(ConnectionTest, AStrangerIsRefused) {
  connect(options("worker/3", Secret::generate()), options("ps/0", Secret::generate()));
  EXPECT_THROW(pump_both(), AuthError);
  EXPECT_FALSE(client->is_open());
  EXPECT_FALSE(server->is_open());
  EXPECT_TRUE(ps.got.empty());
}

TEST_P(ConnectionTest, APeerThatGoesIsAPeerError) {
  pump_both();
  client.reset();
  EXPECT_THROW(pump({server.get()}), PeerError);
}

TEST_P(ConnectionTest, WhatThePeerSaidBeforeItWentIsReadFirst) {
  pump_both();
  send(*server, ps, "this is why");
  server->on_events(EPOLLOUT);
  server.reset();
  send(*client, worker, "hello?", noise(1 << 20));
  EXPECT_THROW(
      {
        while (true) client->on_events(EPOLLOUT | EPOLLIN);
      },
      PeerError);
  ASSERT_EQ(worker.got.size(), 1u);
  EXPECT_EQ(worker.got[0].control, "this is why");
}

class UnixConnectionTest : public ConnectionTest {};
INSTANTIATE_TEST_SUITE_P(Unix, UnixConnectionTest, testing::Values(Kind::unix_socket));

UniqueFd file_with(const std::string& text) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_of(int file) {
  char buffer[64];
  const ssize_t count = ::pread(file, buffer, sizeof buffer, 0);
  return {buffer, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST_P(UnixConnectionTest, AFileArrivesWithItsOwnMessage) {
  send(*client, worker, "before", noise(100));
  send(*client, worker, "small", {}, file_with("one"));
  send(*client, worker, "between");
  send(*client, worker, "large", noise(3 << 20), file_with("two"));
  send(*client, worker, "after");
  send(*client, worker, "again", {}, file_with("three"));
  pump_both();
  ASSERT_EQ(ps.got.size(), 6u);
  const char* expected[] = {nullptr, "one", nullptr, "two", nullptr, "three"};
  for (std::size_t i = 0; i < ps.got.size(); ++i) {
    ASSERT_EQ(ps.got[i].file.valid(), expected[i] != nullptr) << ps.got[i].control;
    if (expected[i] != nullptr) {
      EXPECT_EQ(text_of(ps.got[i].file.get()), expected[i]);
    }
  }
}

// A peer that is proven, and then writes what it likes.
class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    raw.reset(fds[0]);
    server = std::make_unique<Connection>(UniqueFd(fds[1]), options("ps/0"), true, ps);
    ClientHandshake handshake(options("worker/0"), "ps/0");
    while (!handshake.done() || !server->is_open()) {
      const std::string out = handshake.take_output();
      ASSERT_EQ(::write(raw.get(), out.data(), out.size()), static_cast<ssize_t>(out.size()));
      server->on_events(EPOLLIN);
      char buffer[512];
      const ssize_t count = ::read(raw.get(), buffer, sizeof buffer);
      if (count > 0) handshake.feed({buffer, static_cast<std::size_t>(count)});
    }
    encoder = std::make_unique<FrameEncoder>(handshake.result().keys.client_to_server,
                                             kMaxControlBytes * 2);
  }

  std::string says(const std::string& bytes) {
    EXPECT_EQ(::write(raw.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return message_of<ProtocolError>([&] { server->on_events(EPOLLIN); });
  }
  std::string frame(std::uint64_t bulk, std::uint32_t crc, const std::string& control) {
    std::string payload, out;
    ByteWriter(payload).integer(bulk).integer(crc);
    encoder->encode(payload + control, out);
    return out;
  }

  Owner ps;
  UniqueFd raw;
  std::unique_ptr<Connection> server;
  std::unique_ptr<FrameEncoder> encoder;
};

TEST_F(HostileTest, ALengthOverTheBoundIsRefusedAtOnce) {
  EXPECT_NE(says(std::string("\xff\xff\xff\x7f", 4)).find("announces"), std::string::npos);
}

TEST_F(HostileTest, ABulkOverTheBoundIsRefusedBeforeMemoryIsAskedFor) {
  EXPECT_NE(says(frame(kMaxBulkBytes + 1, 0, "x")).find("announces"), std::string::npos);
  EXPECT_EQ(ps.places_asked, 0);
}

TEST_F(HostileTest, AFrameTooShortForItsPrefixIsRefused) {
  std::string out;
  encoder->encode("tiny", out);
  EXPECT_NE(says(out).find("has 4 bytes; at least 12 expected"), std::string::npos);
}

TEST_F(HostileTest, DamagedBulkIsNotDelivered) {
  EXPECT_NE(says(frame(3, 0x12345678, "x") + "abc").find("damaged"), std::string::npos);
  EXPECT_TRUE(ps.got.empty());
}

TEST_F(HostileTest, AForgedFrameIsNotDelivered) {
  std::string bytes = frame(0, 0, "x");
  bytes.back() ^= 1;
  EXPECT_NE(says(bytes).find("not authentic"), std::string::npos);
  EXPECT_TRUE(ps.got.empty());
}

TEST(Connection, RandomBytesInsteadOfAHandshakeEndIt) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    UniqueFd raw(fds[0]);
    Owner ps;
    Connection server(UniqueFd(fds[1]), options("ps/0", Secret::generate()), true, ps);
    const std::string bytes = noise(4000 + seed);
    ASSERT_GT(::write(raw.get(), bytes.data(), bytes.size()), 0);
    EXPECT_THROW(server.on_events(EPOLLIN), Error);
    EXPECT_FALSE(server.is_open());
  }
}

}  // namespace
}  // namespace cohort::ps
