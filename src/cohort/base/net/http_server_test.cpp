#include "cohort/base/net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/certificate_test.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<HttpListener> on_loopback() { return {{.bind = Endpoint::tcp("127.0.0.1", 0)}}; }

class Http : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    start(limits, [this](HttpRequest request) {
      ++handled_;
      return HttpResponse{.body = request.method + " " + request.target + " " + request.body};
    });
  }
  void start(HttpLimits limits, HttpServer::Handler handler, HttpServer::OnHead on_head = {}) {
    server_.emplace(on_loopback(), "the test", limits, std::move(handler), std::move(on_head));
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

TEST_F(Http, ListensInOneMorePlaceWhenAHandlerSaysSo) {
  start({}, [this](HttpRequest request) {
    if (request.target != "/more")
      return HttpResponse{.body = std::to_string(request.peer.listener)};
    return HttpResponse{.body = std::to_string(server_->listen(on_loopback().front()))};
  });
  EXPECT_THAT(ask("GET /more HTTP/1.1\r\nHost: x\r\n\r\n"), EndsWith("\r\n\r\n1"));
  EXPECT_NE(server_->port(1), server_->port(0));
  const UniqueFd fd = connect_to(Endpoint::tcp("127.0.0.1", server_->port(1)), soon());
  send_all(fd.get(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), EndsWith("\r\n\r\n1"));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), EndsWith("\r\n\r\n0"));
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
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
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

// More than one read: what keeps a connection would keep it for ever.
TEST_F(Http, AConnectionIsKeptForSoManyRequests) {
  start({.requests = 3});
  const UniqueFd fd = connect();
  for (int i = 0; i < 2; ++i) {
    send_all(fd.get(), "GET /a HTTP/1.1\r\n\r\n", soon(), "the server");
    const std::string expected =
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 7\r\n"
        "Connection: keep-alive\r\n\r\nGET /a ";
    std::string reply(expected.size(), ' ');
    recv_all(fd.get(), reply.data(), reply.size(), soon(), "the server");
    EXPECT_EQ(reply, expected);
  }
  send_all(fd.get(), "GET /last HTTP/1.1\r\n\r\n", soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), HasSubstr("Connection: close\r\n\r\nGET /last "));
}

TEST_F(Http, RequestsSentTogetherAreAnsweredInOrder) {
  start({.requests = 100});
  EXPECT_THAT(ask("PUT /1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyzHEAD /2 HTTP/1.1\r\n\r\n"
                  "PUT /3 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                  "GET /4 HTTP/1.1\r\nConnection: close\r\n\r\nGET /5 HTTP/1.1\r\n\r\n"),
              MatchesRegex("(.|\n)*\n\r\nPUT /1 xyzHTTP/1.1 200(.|\n)*\n\r\nHTTP/1.1 200(.|\n)*"
                           "PUT /3 xHTTP/1.1(.|\n)*Connection: close\r\n\r\nGET /4 "));
  EXPECT_EQ(handled_, 4);
}

TEST_F(Http, MistakesAfterAGoodRequestAreAnsweredAndEndTheConnection) {
  start({.requests = 100});
  EXPECT_THAT(ask("GET /1 HTTP/1.1\r\n\r\nrubbish\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"),
              AllOf(HasSubstr("GET /1 HTTP/1.1 400 "), Not(HasSubstr("/2"))));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nx"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(handled_, 1);
}

TEST_F(Http, DamagedRequestsDoNoHarm) {
  start({.requests = 100});
  const std::string good =
      "PUT /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"
      "PUT /2 HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;a=b\r\n12345\r\n0\r\nTrailer: t\r\n\r\nGET /3 HTTP/1.0\r\n\r\n";
  std::minstd_rand random(7);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = good.substr(0, 1 + random() % good.size());
    for (int changes = static_cast<int>(random() % 4); changes > 0; --changes)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const UniqueFd fd = connect();
    send_all(fd.get(), damaged, soon(), "the server");
    ::shutdown(fd.get(), SHUT_WR);
    EXPECT_THAT(read_all(fd.get()), Not(HasSubstr("and then nothing")));
  }
  EXPECT_THAT(ask(good), AllOf(HasSubstr("PUT /1 xyz"), HasSubstr("PUT /2 12345"),
                               HasSubstr("Connection: close\r\n\r\nGET /3 ")));
}

TEST_F(Http, AnIdleConnectionIsClosed) {
  start({.requests = 100, .idle = std::chrono::milliseconds(50)});
  EXPECT_THAT(ask("GET /1 HTTP/1.1\r\n\r\n"), EndsWith("GET /1 "));  // to its end
}

TEST_F(Http, HeadersComeAndGo) {
  start({}, [](HttpRequest request) {
    EXPECT_EQ(find_header(request.headers, "X-Other"), nullptr);
    EXPECT_EQ(request.headers.at(1).first, "x-thing");
    EXPECT_THAT(request.peer.address, StartsWith("127.0.0.1:"));
    EXPECT_FALSE(request.peer.user || request.peer.is_tls);
    return HttpResponse{.headers = {{"X-Back", *find_header(request.headers, "X-Thing")}}};
  });
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: h\r\nX-THING:  Some Value \r\n\r\n"),
              HasSubstr("\r\nX-Back: Some Value\r\n"));
}

TEST_F(Http, AHeaderThatWouldBecomeTwoIsAnInternalError) {
  start({}, [](HttpRequest) { return HttpResponse{.headers = {{"A", "b\r\nSet-Cookie: c"}}}; });
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("Cookie"))));
}

TEST_F(Http, HeadAndNoContentHaveNoBody) {
  start({.requests = 9}, [](HttpRequest request) {
    return HttpResponse{.status = request.method == "HEAD" ? 200 : 204, .body = "abc"};
  });
  const std::string reply =
      ask("HEAD / HTTP/1.1\r\n\r\nDELETE / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("Content-Length: 3\r\nConnection: keep-alive\r\n\r\nHTTP/1.1 204"));
  EXPECT_THAT(reply, EndsWith("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"));
}

// Answers with how many it was given; refuses what begins with "no".
class CountingSink : public BodySink {
 public:
  std::uint64_t limit() const override { return 3'000'000; }
  std::optional<HttpResponse> write(std::string_view piece) override {
    bytes_ += piece;
    if (bytes_.starts_with("throw")) throw Error("broken");
    if (bytes_.starts_with("no")) return HttpResponse{.status = 409};
    return std::nullopt;
  }
  HttpResponse finish() override {
    const auto count = std::ranges::count(bytes_, 'x');
    return {.status = 201, .body = fmt::format("{} of {}", count, bytes_.size())};
  }

 private:
  std::string bytes_;
};

TEST_F(Http, ABodyGoesToItsSinkBeyondTheLimitOfMemory) {
  start(
      {.body = 1000, .pending = 100'000, .requests = 9},
      [](HttpRequest) -> HttpResponse { throw Error("not for the handler"); },
      [](const HttpRequest& head) {
        EXPECT_EQ(head.method + head.target + *find_header(head.headers, "x"), "PUT/sourcey");
        return HttpDecision{.sink = std::make_unique<CountingSink>()};
      });
  const std::string head = "PUT /source HTTP/1.1\r\nx: y\r\nConnection: close\r\n";
  const std::string body(2'500'000, 'x');
  EXPECT_THAT(ask(head + "Content-Length: 2500000\r\n\r\n" + body), EndsWith("2500000 of 2500000"));
  EXPECT_THAT(ask(head + "Transfer-Encoding: chunked\r\n\r\n2625a0\r\n" + body + "\r\n0\r\n\r\n"),
              EndsWith("2500000 of 2500000"));
  EXPECT_THAT(ask(head + "Content-Length: 3000001\r\n\r\n"), HasSubstr(" 413 "));
  EXPECT_THAT(ask(head + "Transfer-Encoding: chunked\r\n\r\n2dc6c1\r\n"), HasSubstr(" 413 "));
  EXPECT_THAT(ask(head + "Content-Length: 3000000\r\n\r\nnot this"), HasSubstr(" 409 "));
  EXPECT_THAT(ask(head + "Content-Length: 3000000\r\n\r\nthrow"), HasSubstr(" 500 "));
}

TEST_F(Http, ARefusalByTheHeadComesBeforeTheBody) {
  start(
      {}, [](HttpRequest request) { return HttpResponse{.body = request.body}; },
      [](const HttpRequest& head) -> HttpDecision {
        if (head.target == "/broken") throw Error("broken");
        if (find_header(head.headers, "authorization")) return {};
        return {.refusal = HttpResponse{.status = 401}};
      });
  const std::string size = "Content-Length: 1000\r\n";
  EXPECT_THAT(ask("PUT / HTTP/1.1\r\n" + size + "Expect: 100-continue\r\n\r\n"),
              StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask("PUT /broken HTTP/1.1\r\n" + size + "\r\n"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(
      ask("PUT / HTTP/1.1\r\n" + size + "Authorization: a\r\n\r\n" + std::string(1000, 'x')),
      EndsWith("\r\nx" + std::string(999, 'x')));
}

TEST_F(Http, ARefusalByTheHeadKeepsTheConnectionWhereThereIsNoBody) {
  start(
      {.requests = 9}, [](HttpRequest) { return HttpResponse{}; },
      [](const HttpRequest&) { return HttpDecision{.refusal = HttpResponse{.status = 401}}; });
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\nPUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET / HTT"),
              MatchesRegex("HTTP/1.1 401 [^:]*(.|\n)*: keep-alive\r\n\r\nHTTP/1.1 401 (.|\n)*"
                           ": close\r\n\r\n"));
}

// Made of what another thread puts in.
class TestLater : public LaterAnswer {
 public:
  struct Box {
    std::mutex mutex;
    std::optional<std::string> text;
    std::function<void()> wake;
  };
  explicit TestLater(std::shared_ptr<Box> box) : box_(std::move(box)) {}
  std::optional<HttpResponse> take() override {
    const std::lock_guard lock(box_->mutex);
    if (!box_->text) return std::nullopt;
    if (box_->text->empty()) throw Error("nothing to say");
    return HttpResponse{.body = *box_->text};
  }

 private:
  std::shared_ptr<Box> box_;
};

TEST_F(Http, AnAnswerMayComeLaterAndOthersAreServedMeanwhile) {
  const auto box = std::make_shared<TestLater::Box>();
  start({.requests = 3}, [box](HttpRequest request) {
    if (request.target == "/now") return HttpResponse{.body = "now"};
    const std::lock_guard lock(box->mutex);
    box->wake = request.wake;
    HttpResponse response;
    response.later = std::make_unique<TestLater>(box);
    return response;
  });
  // Once the server has asked for an answer: gives it this one; none: "not yet".
  const auto put = [&](std::optional<std::string> text) {
    const Deadline limit = soon();
    while (!limit.expired()) {
      const std::lock_guard lock(box->mutex);
      if (!box->wake) continue;
      box->text = text;
      box->wake();
      if (text) box->wake = nullptr;
      return;
    }
    ADD_FAILURE() << "it was never asked";
  };
  const UniqueFd waits = connect();
  send_all(waits.get(), "GET /later HTTP/1.1\r\n\r\nGET /now HTTP/1.0\r\n\r\n", soon(),
           "the server");
  put(std::nullopt);
  EXPECT_THAT(ask("GET /now HTTP/1.0\r\n\r\n"), EndsWith("now"));
  put("later");
  EXPECT_THAT(read_all(waits.get()),
              AllOf(HasSubstr("\r\n\r\nlaterHTTP/1.1 200"), EndsWith("now")));
  {
    const UniqueFd gone = connect();
    send_all(gone.get(), "GET /later HTTP/1.1\r\n\r\n", soon(), "the server");
    put(std::nullopt);
  }
  put("to no reader");
  const UniqueFd fails = connect();
  send_all(fails.get(), "GET /later HTTP/1.0\r\n\r\n", soon(), "the server");
  put("");
  EXPECT_THAT(read_all(fails.get()), StartsWith("HTTP/1.1 500"));
}

TEST_F(Http, AnswersThatAreNotTakenAreBounded) {
  constexpr std::size_t kAnswer = std::size_t{16} << 20;  // more than the system keeps
  start({.pending = 2 * kAnswer, .time = std::chrono::minutes(2)}, [](HttpRequest request) {
    return HttpResponse{.body = std::string(request.target == "/large" ? kAnswer : 1, 'x')};
  });
  std::vector<UniqueFd> readers;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(connect());
    send_all(readers.back().get(), "GET /large HTTP/1.0\r\n\r\n", soon(), "the server");
    EXPECT_THAT(ask("GET /small HTTP/1.0\r\n\r\n"), EndsWith("x"));
  }
  int whole = 0;
  for (const UniqueFd& reader : readers) whole += read_all(reader.get()).size() > kAnswer ? 1 : 0;
  EXPECT_GE(whole, 1);
  EXPECT_LE(whole, 3);
}

TEST_F(Http, AUnixSocketIsItsUsersAloneAndSaysWhoIsThere) {
  const ScratchFolder folder;
  const std::string path = folder / "socket";
  const Endpoint place = Endpoint::unix_path(path);
  { const UniqueFd stale = listen_on(place); }
  ASSERT_TRUE(std::filesystem::exists(path));
  HttpServer server({{.bind = Endpoint::tcp("127.0.0.1", 0)}, {.bind = place}}, "the test", {},
                    [](HttpRequest request) {
                      EXPECT_EQ(request.peer.user, ::geteuid());
                      EXPECT_EQ(request.peer.listener, 1u);
                      return HttpResponse{.body = "hello"};
                    });
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const UniqueFd fd = connect_to(place, soon());
  send_all(fd.get(), "GET / HTTP/1.1\r\n\r\n", soon(), "the server");
  EXPECT_THAT(read_all(fd.get()), EndsWith("hello"));
  EXPECT_THROW(HttpServer({{.bind = place}}, "another", {}, {}), SystemError);
  server.close();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Http, WhatIsNotTlsIsNotServedWhereTlsIs) {
  const ScratchFolder folder;
  const TestCertificate certificate(folder.path(), "IP:127.0.0.1");
  const TestCertificate other(folder.path(), "IP:127.0.0.1", "other-");
  const auto listeners = [](const auto& file, const auto& key) {
    return std::vector<HttpListener>{{.bind = Endpoint::tcp("127.0.0.1", 0),
                                      .tls = HttpListener::Tls{.certificate = file, .key = key}}};
  };
  const auto never = [](HttpRequest) -> HttpResponse { throw Error("never"); };
  server_.emplace(listeners(certificate.certificate(), certificate.key()), "the test", HttpLimits{},
                  never);
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), Not(HasSubstr("HTTP/1.1")));
  for (const auto& key : {other.key(), folder / "none"})
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  HttpServer bad(listeners(certificate.certificate(), key), "bad", {}, never);
                }),
                HasSubstr(key.string()));
}

}  // namespace
}  // namespace cohort
