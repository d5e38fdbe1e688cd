#include "cohort/base/net/http_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/certificate_test.h"
#include "cohort/base/net/http_file.h"
#include "cohort/base/net/http_server.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/net/sse.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

class WaitingStream : public BodyStream {
  Then next(std::string&) override { return Then::wait(std::chrono::hours(1)); }
};

// Three events, and a comment between.
class EventStream : public BodyStream {
  Then next(std::string& bytes) override {
    bytes += to_sse("count", std::to_string(++count_), "a\nb") + ": still here\n\n";
    return count_ == 3 ? Then::end() : Then::more();
  }
  int count_ = 0;
};

// By every way that there is to the server: "tcp", "unix", "tls".
class HttpWays : public ::testing::TestWithParam<const char*> {
 protected:
  HttpWays() {
    std::vector<HttpListener> listeners{{.bind = Endpoint::tcp("127.0.0.1", 0)}};
    if (way() == "unix") listeners[0].bind = Endpoint::unix_path(folder_ / "socket");
    if (way() == "tls")
      listeners[0].tls = HttpListener::Tls{certificate_.certificate(), certificate_.key()};
    server_.emplace(
        listeners, "the test", HttpLimits{.body = 8 << 20, .pending = 32 << 20},
        [this](HttpRequest request) { return answer(std::move(request)); },
        [](const HttpRequest& head) -> HttpDecision {
          if (head.target == "/refused")
            return {.refusal = HttpResponse{.status = 401, .body = "who?"}};
          return {};
        });
  }
  std::string way() const { return GetParam(); }

  HttpClientOptions options() const {
    HttpClientOptions options{.server = way() == "unix"
                                            ? Endpoint::unix_path(folder_ / "socket")
                                            : Endpoint::tcp("127.0.0.1", server_->port())};
    options.headers = {{"Authorization", "Bearer x"}};
    options.tls = way() == "tls";
    options.ca_file = certificate_.certificate();
    return options;
  }

  HttpResponse answer(HttpRequest request) const {
    EXPECT_EQ(*find_header(request.headers, "authorization"), "Bearer x");
    EXPECT_EQ(request.peer.is_tls, way() == "tls");
    if (request.target == "/waits") return {.stream = std::make_unique<WaitingStream>()};
    if (request.target == "/events") return {.stream = std::make_unique<EventStream>()};
    if (request.target == "/file") {
      const std::string path = folder_ / "file";
      UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      return {.stream = make_file_stream(std::move(file), 1, std::filesystem::file_size(path) - 1)};
    }
    if (request.target == "/none") return {.status = 404, .body = "there is none"};
    return {.body = request.method + " " + std::move(request.body), .headers = {{"X-Back", "yes"}}};
  }

  ScratchFolder folder_;
  TestCertificate certificate_{folder_.path(), "IP:127.0.0.1"};
  std::optional<HttpServer> server_;
};

TEST_P(HttpWays, ACallAndItsReply) {
  const HttpClient client(options());
  const HttpReply reply = client.call({.method = "PUT", .target = "/a", .body = "body"}, soon());
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "PUT body");
  EXPECT_EQ(*find_header(reply.headers, "X-Back"), "yes");
  EXPECT_EQ(client.call({.method = "HEAD"}, soon()).body, "");
  EXPECT_EQ(client.call({.target = "/none"}, soon()).status, 404);
  const std::string large(5'000'000, 'x');
  EXPECT_TRUE(client.call({.method = "POST", .body = large}, soon()).body == "POST " + large);
}

TEST_P(HttpWays, FilesGoBothWays) {
  std::string text = "a";
  while (text.size() < 5'000'000) text += std::to_string(text.size());
  write_file_atomically(folder_ / "file", text);
  const HttpClient client(options());
  EXPECT_TRUE(client.call({.method = "PUT", .file = folder_ / "file"}, soon()).body ==
              "PUT " + text);
  std::string read = "a";
  const auto sink = [&](std::string_view piece) { read += piece; };
  EXPECT_EQ(client.download({.target = "/file"}, sink, soon()).status, 200);
  EXPECT_TRUE(read == text);
  EXPECT_EQ(client.download({.target = "/none"}, sink, soon()).body, "there is none");
  EXPECT_THROW(client.call({.method = "PUT", .file = folder_ / "none"}, soon()), SystemError);
}

// The server stops reading long before the file's end.
TEST_P(HttpWays, ARefusalInTheMiddleOfABodyIsAReply) {
  { UniqueFd file(::open((folder_ / "large").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); }
  std::filesystem::resize_file(folder_ / "large", std::uintmax_t{1} << 30);
  const HttpReply reply = HttpClient(options()).call(
      {.method = "PUT", .target = "/refused", .file = folder_ / "large"}, soon());
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.body, "who?");
}

TEST_P(HttpWays, EventsAreReadAsTheyCome) {
  HttpReplyReader reply = HttpClient(options()).open({.target = "/events"}, soon());
  SseReader reader;
  for (int i = 1; i <= 3; ++i) {
    const auto event = next_event(reply, reader, soon());
    ASSERT_TRUE(event);
    EXPECT_EQ(event->name + event->id + event->data, fmt::format("count{}a\nb", i));
  }
  EXPECT_FALSE(next_event(reply, reader, soon()));
}

TEST_P(HttpWays, AWaitEndsByItsDeadlineOrWhenItIsCancelled) {
  HttpCancel cancel;
  HttpClientOptions given = options();
  given.cancel = &cancel;
  const HttpClient client(given);
  HttpReplyReader reply = client.open({.target = "/waits"}, soon());
  EXPECT_THROW(reply.read(Deadline::after(std::chrono::milliseconds(10))), TimeoutError);
  std::thread other([&] { cancel.cancel(); });
  EXPECT_THROW(reply.read(soon()), HttpCancelled);
  other.join();
  EXPECT_THROW(client.call({}, soon()), HttpCancelled);
}

INSTANTIATE_TEST_SUITE_P(All, HttpWays, ::testing::Values("tcp", "unix", "tls"),
                         [](const auto& info) { return std::string(info.param); });

// What a client says of a server that sends `reply` and closes.
template <typename Expected>
std::string complaint_about(const std::string& reply) {
  const UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
  std::thread server([&] {
    const UniqueFd fd = accept_from(listener.get(), soon());
    char request[64];
    recv_all(fd.get(), request, 16, soon(), "the client");
    try {
      send_all(fd.get(), reply, soon(), "the client");
    } catch (const PeerError&) {  // it has seen enough
    }
  });
  const HttpClient client({.server = local_endpoint(listener.get())});
  const std::string text = message_of<Expected>([&] { client.call({}, soon(), 1000); });
  server.join();
  return text;
}

TEST(HttpClient, ABadReplyIsNoReply) {
  complaint_about<PeerError>("");
  complaint_about<PeerError>("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123");
  complaint_about<PeerError>("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n123\r\n");
  complaint_about<PeerError>("HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(complaint_about<ProtocolError>("SSH-2.0-server\r\n\r\n"), HasSubstr("no HTTP"));
  complaint_about<ProtocolError>("HTTP/1.1 200 OK\r\nname: " + std::string(1 << 20, 'x'));
  EXPECT_THAT(complaint_about<ProtocolError>("HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x')),
              HasSubstr("more than 1000 bytes"));
}

TEST(HttpClient, WhatWouldBreakARequestIsNotSent) {
  const HttpClient client({.server = Endpoint::tcp("127.0.0.1", 1)});
  EXPECT_THROW(client.call({.target = "/a b"}, soon()), InvalidInput);
  EXPECT_THROW(client.call({.headers = {{"a", "b\r\nc: d"}}}, soon()), InvalidInput);
  EXPECT_THROW(client.call({}, soon()), PeerError);  // no server is there
}

TEST(HttpClient, TrustsNoOtherCertificateAndNoOtherName) {
  const ScratchFolder folder;
  const TestCertificate own(folder.path(), "DNS:elsewhere.example");
  const TestCertificate other(folder.path(), "IP:127.0.0.1", "other-");
  HttpServer server({{.bind = Endpoint::tcp("127.0.0.1", 0),
                      .tls = HttpListener::Tls{own.certificate(), own.key()}}},
                    "the test", {}, [](HttpRequest) { return HttpResponse{}; });
  const auto complaint = [&](const std::filesystem::path& trusted) {
    return message_of<AuthError>([&] {
      HttpClient(
          {.server = Endpoint::tcp("127.0.0.1", server.port()), .tls = true, .ca_file = trusted})
          .call({}, soon());
    });
  };
  EXPECT_THAT(complaint(other.certificate()), HasSubstr("self-signed certificate"));
  EXPECT_THAT(complaint({}), HasSubstr("self-signed certificate"));
  EXPECT_THAT(complaint(own.certificate()), HasSubstr("IP address mismatch"));
  EXPECT_THROW(HttpClient({.server = Endpoint::tcp("h", 1), .tls = true, .ca_file = own.key()}),
               InvalidInput);
}

TEST(HttpClient, ReadsAddresses) {
  const auto text = [](const char* url) {
    const HttpClientOptions options = HttpClientOptions::at(url);
    return (options.tls ? "tls " : "") + options.server.to_string();
  };
  EXPECT_EQ(text("http://host:8080"), "host:8080");
  EXPECT_EQ(text("https://host/"), "tls host:443");
  EXPECT_EQ(text("https://[::1]:7"), "tls [::1]:7");
  EXPECT_EQ(text("unix:/run/x"), "unix:/run/x");
  for (const char* bad : {"host:1", "ftp://host", "http://", "http://host:0", "http://host:x",
                          "http://host/path", "http://user@host", "http://[::1", "http://[::1]x"})
    EXPECT_THROW(HttpClientOptions::at(bad), InvalidInput) << bad;
}

}  // namespace
}  // namespace cohort
