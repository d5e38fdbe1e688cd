#include "cohort/cluster/horovod/horovod_rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort::cluster {
namespace {

struct Reply {
  int status = 0;
  std::string body;
};

// One request over a connection of its own, as Horovod's client makes them.
Reply ask(const Address& address, const std::string& method, const std::string& path,
          const std::string& body = "", const std::string& more = "") {
  UniqueFd fd = connect_to(Endpoint::tcp(address.host, address.port), soon());
  send_all(fd.get(),
           fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n", method, path,
                       more, body.size()),
           soon(), "server");
  write_some(fd.get(), body);
  std::string text;
  char buffer[4096];
  while (true) {
    IoResult result = read_some(fd.get(), buffer, sizeof buffer);
    if (result.status == IoResult::Status::would_block) {
      EXPECT_TRUE(wait_ready(fd.get(), POLLIN, soon()));
    } else if (result.status == IoResult::Status::progress) {
      text.append(buffer, result.count);
    } else {
      break;
    }
  }
  std::size_t end = text.find("\r\n\r\n");
  if (text.size() < 12 || end == std::string::npos) return {};
  return {std::stoi(text.substr(9, 3)), text.substr(end + 4)};
}

TEST(HorovodRendezvous, WhatOneRankPutsAnotherGets) {
  HorovodRendezvous server;
  const Address& at = server.address();
  EXPECT_EQ(ask(at, "GET", "/global/0").status, 404);
  std::string address("\x02\x00\x1f\x90\x00\xff", 6);
  EXPECT_EQ(ask(at, "PUT", "/global/0", address).status, 200);
  Reply reply = ask(at, "GET", "/global/0");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, address);
  EXPECT_EQ(ask(at, "GET", "/local_host/0").status, 404);
  EXPECT_EQ(ask(at, "PUT", "/global/0", "again").status, 200);
  EXPECT_EQ(ask(at, "GET", "/global/0").body, "again");
}

TEST(HorovodRendezvous, TheFirstRankToFinishDoesNotTakeItsAddressFromTheLast) {
  HorovodRendezvous server;
  const Address& at = server.address();
  for (std::string rank : {"0", "1", "2"}) ask(at, "PUT", "/global/" + rank, "a" + rank);
  EXPECT_EQ(ask(at, "DELETE", "/global/0").status, 200);
  EXPECT_EQ(ask(at, "DELETE", "/global/0").status, 200);
  EXPECT_EQ(ask(at, "DELETE", "/global/1").status, 200);
  EXPECT_EQ(ask(at, "GET", "/global/0").body, "a0");
  EXPECT_EQ(ask(at, "DELETE", "/global/2").status, 200);
  for (std::string rank : {"0", "1", "2"})
    EXPECT_EQ(ask(at, "GET", "/global/" + rank).status, 404) << rank;
}

TEST(HorovodRendezvous, InOtherScopesDeleteRemoves) {
  HorovodRendezvous server;
  const Address& at = server.address();
  ask(at, "PUT", "/runfunc/func", "f");
  ask(at, "PUT", "/runfunc/other", "g");
  EXPECT_EQ(ask(at, "DELETE", "/runfunc/func").status, 200);
  EXPECT_EQ(ask(at, "GET", "/runfunc/func").status, 404);
  EXPECT_EQ(ask(at, "GET", "/runfunc/other").body, "g");
  EXPECT_EQ(ask(at, "DELETE", "/nothing/here").status, 200);
}

TEST(HorovodRendezvous, ABodyThatAClientCallsAFormIsStoredAsItIs) {
  HorovodRendezvous server;
  std::string body(20000, '%');
  EXPECT_EQ(ask(server.address(), "PUT", "/s/k", body,
                "Content-Type: application/x-www-form-urlencoded\r\n")
                .status,
            200);
  EXPECT_EQ(ask(server.address(), "GET", "/s/k").body, body);
}

TEST(HorovodRendezvous, SizesAreBounded) {
  HorovodRendezvous server({.max_key = 10, .max_value = 1000, .max_total = 1500});
  const Address& at = server.address();
  EXPECT_EQ(ask(at, "PUT", "/s/k", std::string(1001, 'x')).status, 413);
  EXPECT_EQ(ask(at, "PUT", "/s/" + std::string(11, 'k'), "x").status, 413);
  EXPECT_EQ(ask(at, "PUT", "/s/1", std::string(1000, 'x')).status, 200);
  EXPECT_EQ(ask(at, "PUT", "/s/2", std::string(1000, 'x')).status, 507);
  EXPECT_EQ(ask(at, "GET", "/s/1").body.size(), 1000u);
}

TEST(HorovodRendezvous, ManySmallEntriesAreBoundedToo) {
  HorovodRendezvous server({.max_total = 10'000});
  int taken = 0;
  for (int i = 0; i < 100; ++i)
    if (ask(server.address(), "PUT", fmt::format("/{}/k", i), "x").status == 200) ++taken;
  EXPECT_GT(taken, 10);
  EXPECT_LT(taken, 40);
}

TEST(HorovodRendezvous, DeletesOfKeysThatAreNotThereCountForNothing) {
  HorovodRendezvous server;
  const Address& at = server.address();
  for (std::string rank : {"0", "1"}) ask(at, "PUT", "/global/" + rank, "a" + rank);
  for (std::string rank : {"0", "7", "8", "9"})
    EXPECT_EQ(ask(at, "DELETE", "/global/" + rank).status, 200);
  EXPECT_EQ(ask(at, "GET", "/global/0").body, "a0");
}

TEST(HorovodRendezvous, OtherPathsAndMethodsAreRefused) {
  HorovodRendezvous server;
  const Address& at = server.address();
  for (std::string path : {"/", "/x", "/x/", "//x", "*"})
    EXPECT_EQ(ask(at, "PUT", path, "v").status, 404) << path;
  EXPECT_EQ(ask(at, "POST", "/global/0", "v").status, 405);
}

TEST(HorovodRendezvous, AnAddressThatOtherMachinesReachIsRefused) {
  EXPECT_THROW(HorovodRendezvous({.bind = {"0.0.0.0", 0}}), InvalidInput);
}

// Sends a request as another user, and closes without waiting where `at_once`.
void put_as_other_user(const Address& at, bool at_once) {
  constexpr uid_t kOtherUser = 65534;
  const SocketAddress address = resolve(Endpoint::tcp(at.host, at.port), soon()).front();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string_view request = "PUT /global/0 HTTP/1.1\r\nContent-Length: 6\r\n\r\npoison";
    const int fd = ::setuid(kOtherUser) == 0 ? ::socket(address.family(), SOCK_STREAM, 0) : -1;
    if (fd < 0 || ::connect(fd, address.get(), address.size) != 0) ::_exit(1);
    const ssize_t sent = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char byte;
    if (!at_once && sent > 0 && ::read(fd, &byte, 1) > 0) ::_exit(2);
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(HorovodRendezvous, AnotherUserCannotPoisonIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  HorovodRendezvous server;
  const Address& at = server.address();
  ask(at, "PUT", "/global/0", "honest");
  put_as_other_user(at, false);
  put_as_other_user(at, true);  // its closed socket looks like root's
  EXPECT_EQ(ask(at, "GET", "/global/0").body, "honest");
}

TEST(HorovodRendezvous, ManyRanksAskAtOnce) {
  HorovodRendezvous server;
  std::vector<std::thread> ranks;
  std::atomic<int> found = 0;
  for (int rank = 0; rank < 64; ++rank)
    ranks.emplace_back([&, rank] {
      ask(server.address(), "PUT", fmt::format("/global/{}", rank), std::to_string(rank));
      for (int tries = 0; tries < 1000; ++tries) {
        Reply reply = ask(server.address(), "GET", fmt::format("/global/{}", (rank + 1) % 64));
        if (reply.status == 404) continue;
        if (reply.body == std::to_string((rank + 1) % 64)) ++found;
        break;
      }
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(found, 64);
}

TEST(HorovodRendezvous, ClosesPromptlyThoughAClientStays) {
  HorovodRendezvous server;
  UniqueFd idle = connect_to(Endpoint::tcp("127.0.0.1", server.address().port), soon());
  send_all(idle.get(), "GET /slow", soon(), "server");
  auto begin = std::chrono::steady_clock::now();
  server.close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  server.close();
  EXPECT_THROW(connect_to(Endpoint::tcp("127.0.0.1", server.address().port), soon()), PeerError);
}

TEST(HorovodRendezvous, APortInUseIsAnErrorThatNamesIt) {
  HorovodRendezvous first;
  try {
    HorovodRendezvous second({.bind = first.address()});
    FAIL() << "shares the port";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(first.address().port)),
              std::string::npos);
  }
}

}  // namespace
}  // namespace cohort::cluster
