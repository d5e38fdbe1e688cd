#include "cohort/base/net/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_conversation(const Endpoint& endpoint) {
  UniqueFd listener = listen_on(endpoint);
  Endpoint bound = local_endpoint(listener.get());
  UniqueFd client = connect_to(bound, soon());
  UniqueFd server = accept_from(listener.get(), soon());
  send_all(client.get(), "ping", soon(), "server");
  char buffer[4];
  recv_all(server.get(), buffer, 4, soon(), "client");
  EXPECT_EQ(std::string(buffer, 4), "ping");
  for (int fd : {client.get(), server.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
    if (!endpoint.is_tcp()) continue;
    int on = 0;
    socklen_t size = sizeof on;
    ASSERT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    EXPECT_NE(on, 0);
  }
}

TEST(Socket, TalksOverIpv4Ipv6NamesAndUnixSockets) {
  expect_conversation(Endpoint::tcp("127.0.0.1", 0));
  expect_conversation(Endpoint::tcp("localhost", 0));
  UniqueFd probe(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 any{.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0)
    expect_conversation(Endpoint::tcp("::1", 0));
  expect_conversation(Endpoint::unix_abstract(fmt::format("cohort-test-{}", ::getpid())));
  std::string path = fmt::format("/tmp/cohort-socket-test-{}", ::getpid());
  expect_conversation(Endpoint::unix_path(path));
  ::unlink(path.c_str());
}

TEST(Socket, AProxyInTheEnvironmentIsNotUsed) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("all_proxy", "socks5://127.0.0.1:1", 1);
  expect_conversation(Endpoint::tcp("127.0.0.1", 0));
  ::unsetenv("http_proxy");
  ::unsetenv("all_proxy");
}

TEST(Socket, ErrorsNameTheAddressAndTheFix) {
  UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
  Endpoint taken = local_endpoint(listener.get());
  EXPECT_THAT(thrown_by([&] { listen_on(taken); }), HasSubstr(taken.to_string()));
  EXPECT_THAT(thrown_by([&] { listen_on(taken); }), HasSubstr("choose another port"));
  listener.reset();
  std::string refused = thrown_by([&] { connect_to(taken, soon()); });
  EXPECT_THAT(refused, HasSubstr("cannot connect to " + taken.to_string()));
  EXPECT_THAT(refused, HasSubstr("Check that the process there runs"));
  EXPECT_THAT(thrown_by([&] { connect_to(Endpoint::tcp("no-such-host.invalid", 1), soon()); }),
              HasSubstr("cannot resolve 'no-such-host.invalid'"));
  EXPECT_THROW(listen_on(Endpoint::unix_path(std::string(200, 'x'))), InvalidInput);
  EXPECT_THROW(Endpoint::tcp("host", 70000), InvalidInput);
}

TEST(Socket, ConnectWithRetryFindsAServerThatStartsLater) {
  Endpoint endpoint = local_endpoint(listen_on(Endpoint::tcp("127.0.0.1", 0)).get());
  UniqueFd listener;
  std::thread later([&] {
    ::poll(nullptr, 0, 60);
    listener = listen_on(endpoint);
  });
  EXPECT_TRUE(connect_with_retry(endpoint, soon()).valid());
  later.join();
}

TEST(Socket, ConnectWithRetryGivesUpAtItsDeadline) {
  Endpoint endpoint = local_endpoint(listen_on(Endpoint::tcp("127.0.0.1", 0)).get());
  EXPECT_THROW(connect_with_retry(endpoint, Deadline::after(milliseconds(50))), TimeoutError);
}

TEST(Socket, ConnectWithRetrySaysWhyItsAttemptsFailed) {
  Endpoint unused = local_endpoint(listen_on(Endpoint::tcp("127.0.0.1", 0)).get());
  try {
    connect_with_retry(Endpoint::tcp("localhost", unused.port()),
                       Deadline::after(milliseconds(300)));
    FAIL() << "connected";
  } catch (const TimeoutError& error) {
    EXPECT_NE(error.message().find("refused"), std::string::npos) << error.message();
  }
}

TEST(Socket, APeerThatClosesOrSaysNothingEndsTheWait) {
  UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
  UniqueFd client = connect_to(local_endpoint(listener.get()), soon());
  UniqueFd server = accept_from(listener.get(), soon());
  char byte;
  EXPECT_THROW(recv_all(client.get(), &byte, 1, Deadline::after(milliseconds(20)), "server"),
               TimeoutError);
  std::string large(64 << 20, 'x');
  EXPECT_THROW(send_all(client.get(), large, Deadline::after(milliseconds(50)), "server"),
               TimeoutError);
  server.reset();
  EXPECT_THROW(recv_all(client.get(), &byte, 1, soon(), "server"), PeerError);
  EXPECT_THROW(send_all(client.get(), large, soon(), "server"), PeerError);
  EXPECT_THROW(accept_from(listener.get(), Deadline::after(milliseconds(10))), TimeoutError);
}

TEST(Limits, TheLimitOfOpenFilesIsRaisedAndNeverLowered) {
  std::uint64_t before = raise_file_limit(64);
  EXPECT_GE(before, 64u);
  EXPECT_EQ(raise_file_limit(1), before);
  EXPECT_GE(raise_file_limit(before + 1), before);
}

TEST(NameLookup, AnAddressIsKnownAtOnce) {
  NameLookup lookup(Endpoint::tcp("127.0.0.1", 80), [](const std::string&, int, auto&) {
    ADD_FAILURE() << "nothing is to be asked for";
    return 0;
  });
  ASSERT_TRUE(lookup.is_done());
  EXPECT_EQ(lookup.take().front().endpoint(), Endpoint::tcp("127.0.0.1", 80));
}

// A name server that takes its time holds up no loop.
TEST(NameLookup, ANameIsAskedForOnAnotherThread) {
  std::promise<void> answer;
  std::shared_future<void> answered = answer.get_future();
  NameLookup lookup(Endpoint::tcp("slow.example", 80),
                    [answered](const std::string& host, int port, auto& addresses) {
                      answered.wait();
                      EXPECT_EQ(host, "slow.example");
                      addresses = resolve(Endpoint::tcp("127.0.0.1", port), Deadline::never());
                      return 0;
                    });
  EXPECT_FALSE(lookup.is_done());
  EXPECT_FALSE(wait_ready(lookup.fd(), POLLIN, Deadline::after(std::chrono::milliseconds(0))));
  answer.set_value();
  EXPECT_TRUE(wait_ready(lookup.fd(), POLLIN, Deadline::after(std::chrono::seconds(30))));
  ASSERT_TRUE(lookup.is_done());
  EXPECT_EQ(lookup.take().front().endpoint(), Endpoint::tcp("127.0.0.1", 80));
}

TEST(NameLookup, ANameThatIsNotKnownIsNamed) {
  NameLookup lookup(Endpoint::tcp("no.example", 80),
                    [](const std::string&, int, auto&) { return EAI_NONAME; });
  ASSERT_TRUE(wait_ready(lookup.fd(), POLLIN, Deadline::after(std::chrono::seconds(30))));
  EXPECT_THAT(thrown_by([&] { lookup.take(); }), ::testing::HasSubstr("no.example"));
}

TEST(NameLookup, MayBeGivenUpWhileTheNameServerIsAsked) {
  std::promise<void> answer;
  const auto over = std::make_shared<std::promise<void>>();
  std::shared_future<void> answered = answer.get_future();
  {
    NameLookup lookup(Endpoint::tcp("slow.example", 80),
                      [answered, over](const std::string&, int, auto&) {
                        answered.wait();
                        over->set_value();
                        return EAI_AGAIN;
                      });
  }
  answer.set_value();
  over->get_future().wait();
}

}  // namespace
}  // namespace cohort
