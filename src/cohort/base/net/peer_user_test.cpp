#include "cohort/base/net/peer_user.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

class PeerUser : public ::testing::TestWithParam<std::string> {
 protected:
  UniqueFd listener_ = listen_on(Endpoint::tcp(GetParam(), 0));
  Endpoint where_ = local_endpoint(listener_.get());
};

INSTANTIATE_TEST_SUITE_P(Families, PeerUser, ::testing::Values("127.0.0.1", "::1"),
                         [](const auto& info) { return info.param == "::1" ? "ipv6" : "ipv4"; });

TEST_P(PeerUser, IsTheUserOfTheProcessThatConnected) {
  const UniqueFd client = connect_to(where_, soon());
  const UniqueFd server = accept_from(listener_.get(), soon());
  EXPECT_EQ(tcp_peer_user(server.get()), ::geteuid());
  EXPECT_EQ(detail::tcp_peer_user_by_table(server.get()), ::geteuid());
}

// The system says of such a socket that it is root's.
TEST_P(PeerUser, OfAConnectionThatWasClosedIsNotKnown) {
  UniqueFd client = connect_to(where_, soon());
  send_all(client.get(), "left behind", soon(), "server");
  const UniqueFd server = accept_from(listener_.get(), soon());
  client.reset();
  EXPECT_EQ(tcp_peer_user(server.get()), std::nullopt);
  EXPECT_EQ(detail::tcp_peer_user_by_table(server.get()), std::nullopt);
}

TEST_P(PeerUser, IsAnotherWhereAnotherUserConnected) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  constexpr uid_t kNobody = 65534;
  const SocketAddress address = resolve(where_, soon()).front();
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::setuid(kNobody) == 0 ? ::socket(address.family(), SOCK_STREAM, 0) : -1;
    char end;
    if (fd < 0 || ::connect(fd, address.get(), address.size) != 0) ::_exit(1);
    ::_exit(::read(fd, &end, 1) == 0 ? 0 : 1);
  }
  {
    const UniqueFd server = accept_from(listener_.get(), soon());
    EXPECT_EQ(tcp_peer_user(server.get()), kNobody);
    EXPECT_EQ(detail::tcp_peer_user_by_table(server.get()), kNobody);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cohort
