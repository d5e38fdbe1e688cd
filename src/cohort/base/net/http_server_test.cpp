#include "cohort/base/net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<HttpListener> on_loopback() { return {{.bind = Endpoint::tcp("127.0.0.1", 0)}}; }

class Http : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    server_.emplace(on_loopback(), "the test", limits, [this](HttpRequest request) {
      ++handled_;
      return HttpResponse{.body = request.method + " " + request.target + " " + request.body};
    });
  }
  UniqueFd connect() { return connect_to(Endpoint::tcp("127.0.0.1", server_->port()), soon()); }

  // Everything up to the end of the connection.
  static std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    while (true) {
      const IoResult result = read_some(fd, buffer, sizeof buffer);
      if (result.status == IoResult::Status::progress)
        text.append(buffer, result.count);
      else if (result.status != IoResult::Status::would_block)
        return text;
      else if (!wait_ready(fd, POLLIN, soon()))
        return text + " and then nothing";
    }
  }
  std::string ask(std::string_view request) {
    const UniqueFd fd = connect();
    send_all(fd.get(), request, soon(), "the server");
    return read_all(fd.get());
  }
  // Sends `head`, then `more` again and again until the server ends the connection, `most` bytes at
  // most; returns its answer.
  std::string flood(std::string_view head, const std::string& more, std::size_t most) {
    const UniqueFd fd = connect();
    try {
      send_all(fd.get(), head, soon(), "the server");
      for (std::size_t sent = 0; sent < most; sent += more.size()) {
        if (wait_ready(fd.get(), POLLIN, Deadline::after(std::chrono::milliseconds(0)))) break;
        send_all(fd.get(), more, soon(), "the server");
      }
    } catch (const PeerError&) {
    }
    return read_all(fd.get());
  }

  std::atomic<int> handled_ = 0;
  std::optional<HttpServer> server_;
};

TEST_F(Http, AnswersARequest) {
  start();
  const std::string reply = ask("PUT /a/b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Length: 12\r\nConnection: close\r\n\r\nPUT /a/b xyz"));
}

TEST_F(Http, TakesAChunkedBodyInPieces) {
  start();
  const UniqueFd fd = connect();
  const std::string request =
      "PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n2\r\n12\r\n0\r\n\r\n";
  for (const char byte : request) send_all(fd.get(), {&byte, 1}, soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), HasSubstr("\r\n\r\nPUT /a/b xyz12"));
}

TEST_F(Http, TellsAClientThatAsksFirstToGoOn) {
  start();
  const UniqueFd fd = connect();
  send_all(fd.get(), "PUT /a HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", soon(),
           "the server");
  ASSERT_TRUE(wait_ready(fd.get(), POLLIN, soon()));
  send_all(fd.get(), "ok", soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"));
}

TEST_F(Http, WhatIsNoRequestIsRefused) {
  start();
  EXPECT_THAT(ask("rubbish\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(handled_, 0);
}

// Each is cut off long before it has sent all that it would.
TEST_F(Http, WhatHasNoEndIsCutOff) {
  start();
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const std::string text(64 * 1024, 'x');
  EXPECT_THAT(flood("GET /", text, kMost), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(flood("GET / HTTP/1.1\r\n", "a: b\r\n", kMost), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(flood("GET / HTTP/1.1\r\nname: ", text, kMost), StartsWith("HTTP/1.1 431 "));
  const std::string chunked = "PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(flood(chunked + "1;", text, kMost), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(flood(chunked + "1", std::string(4096, '0'), kMost), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(flood(chunked, "1000\r\n" + std::string(4096, 'x') + "\r\n", kMost),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http, UnfinishedBodiesTogetherAreBoundedAndSmallRequestsServed) {
  start({.body = 1 << 20, .pending = 2 << 20});
  std::vector<UniqueFd> clients;
  int refused = 0;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(connect());
    send_all(clients.back().get(), "PUT / HTTP/1.1\r\nContent-Length: 900001\r\n\r\n", soon(),
             "the server");
    try {
      send_all(clients.back().get(), std::string(900'000, 'x'), soon(), "the server");
    } catch (const PeerError&) {
    }
    EXPECT_THAT(ask("GET /small HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
    if (wait_ready(clients.back().get(), POLLIN, Deadline::after(std::chrono::milliseconds(200)))) {
      EXPECT_THAT(read_all(clients.back().get()), StartsWith("HTTP/1.1 503 "));
      ++refused;
    }
  }
  EXPECT_GE(refused, 5);
}

TEST_F(Http, SlowConnectionsDoNotKeepOthersOut) {
  start({.connections = 20});
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(connect());
    send_all(slow.back().get(), "GET /", soon(), "the server");
  }
  EXPECT_THAT(ask("GET /now HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
}

TEST_F(Http, OneThatDripsIsCutOffInTime) {
  start({.time = std::chrono::milliseconds(300)});
  const UniqueFd fd = connect();
  const Deadline deadline = soon();
  bool is_over = false;
  while (!is_over && !deadline.expired()) {
    try {
      send_all(fd.get(), "x", soon(), "the server");
    } catch (const PeerError&) {
      is_over = true;
    }
    ::poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(is_over);
}

TEST_F(Http, AHandlerThatThrowsIsAnInternalError) {
  HttpServer server(on_loopback(), "the test", {},
                    [](HttpRequest) -> HttpResponse { throw Error("broken"); });
  const UniqueFd fd = connect_to(Endpoint::tcp("127.0.0.1", server.port()), soon());
  send_all(fd.get(), "GET / HTTP/1.1\r\n\r\n", soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), StartsWith("HTTP/1.1 500 "));
}

TEST_F(Http, WhoIsNotAdmittedIsNotRead) {
  HttpServer server(
      {{.bind = Endpoint::tcp("127.0.0.1", 0), .admit = [](int) { throw AuthError("not you"); }}},
      "the test", {}, [](HttpRequest) { return HttpResponse{}; });
  const UniqueFd fd = connect_to(Endpoint::tcp("127.0.0.1", server.port()), soon());
  EXPECT_EQ(read_all(fd.get()), "");
}

}  // namespace
}  // namespace cohort
