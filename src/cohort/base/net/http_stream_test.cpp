#include "cohort/base/net/http_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/net/http_client.h"
#include "cohort/base/net/http_server.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/soon_test.h"

namespace cohort {
namespace {

using Then = BodyStream::Then;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
constexpr std::chrono::hours kNever{1};

// A stream made of functions.
class TestStream : public BodyStream {
 public:
  using Next = std::function<Then(std::string& bytes)>;
  explicit TestStream(Next next, std::optional<std::uint64_t> size = {})
      : next_(next), size_(size) {}
  ~TestStream() override {
    if (on_end) on_end();
  }
  Then next(std::string& bytes) override { return next_(bytes); }
  std::optional<std::uint64_t> size() const override { return size_; }

  std::function<void()> on_end;

 private:
  Next next_;
  std::optional<std::uint64_t> size_;
};

class HttpStream : public ::testing::Test {
 protected:
  using Make = std::function<std::unique_ptr<BodyStream>(const HttpRequest& request)>;

  void start(Make make, HttpLimits limits = {.requests = 100}) {
    server_.emplace(std::vector<HttpListener>{{.bind = Endpoint::tcp("127.0.0.1", 0)}}, "the test",
                    limits, [make](HttpRequest request) {
                      if (request.target == "/small") return HttpResponse{.body = "small"};
                      return HttpResponse{.type = "text/plain", .stream = make(request)};
                    });
    client_ = std::make_unique<HttpClient>(HttpClientOptions{.server = place()});
  }
  Endpoint place() const { return Endpoint::tcp("127.0.0.1", server_->port()); }
  UniqueFd ask(std::string_view request) const {
    UniqueFd fd = connect_to(place(), soon());
    send_all(fd.get(), request, soon(), "the server");
    return fd;
  }
  static std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    while (wait_ready(fd, POLLIN, soon())) {
      const IoResult result = read_some(fd, buffer, sizeof buffer);
      if (result.status != IoResult::Status::progress) return text;
      text.append(buffer, result.count);
    }
    return text + " and then nothing";
  }

  std::optional<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

std::unique_ptr<BodyStream> counting(std::optional<std::uint64_t> size = {}) {
  return std::make_unique<TestStream>(
      [i = 0](std::string& bytes) mutable {
        bytes += std::to_string(++i);
        return i == 3 ? Then::end() : Then::more();
      },
      size);
}

TEST_F(HttpStream, IsSentInChunksOrWithItsLengthOrUntilTheEnd) {
  start([](const HttpRequest& request) {
    return request.target == "/sized" ? counting(3) : counting();
  });
  const std::string last = " HTTP/1.1\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(read_all(ask("GET /a HTTP/1.1\r\n\r\nGET /sized" + last).get()),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
                              "1\r\n1\r\n1\r\n2\r\n1\r\n3\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"),
                    EndsWith("Content-Length: 3\r\nConnection: close\r\n\r\n123")));
  EXPECT_THAT(read_all(ask("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").get()),
              AllOf(EndsWith("Connection: close\r\n\r\n123"), Not(HasSubstr("chunked"))));
  EXPECT_THAT(read_all(ask("HEAD /sized" + last).get()),
              EndsWith("Content-Length: 3\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client_->call({.target = "/a"}, soon()).body, "123");
}

TEST_F(HttpStream, OneThatFailsHasNoEnd) {
  start([](const HttpRequest& request) -> std::unique_ptr<BodyStream> {
    if (request.target == "/short") return counting(4);
    return std::make_unique<TestStream>([i = 0](std::string& bytes) mutable {
      if (++i > 1) throw Error("broken");
      bytes += "some";
      return Then::more();
    });
  });
  for (const char* target : {"/short", "/broken"})
    EXPECT_THROW(client_->call({.target = target}, soon()), PeerError) << target;
}

// What a reader does not take is not made, however long the stream is.
TEST_F(HttpStream, NothingPilesUpForASlowReader) {
  constexpr std::size_t kPieces = 1024, kMost = 512;  // 64 MiB, 32 MiB
  std::atomic<std::size_t> made = 0;
  start([&](const HttpRequest&) {
    return std::make_unique<TestStream>([&](std::string& bytes) {
      bytes.append(BodyStream::kPiece, 'x');
      return ++made == kPieces ? Then::end() : Then::more();
    });
  });
  HttpReplyReader slow = client_->open({.target = "/stream"}, soon());
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(client_->call({.target = "/small"}, soon()).body, "small");
  EXPECT_LT(made, kMost);
  std::size_t read = 0;
  for (std::string piece; !(piece = slow.read(soon())).empty();) read += piece.size();
  EXPECT_EQ(read, kPieces * BodyStream::kPiece);
}

TEST_F(HttpStream, AReaderThatTakesNothingIsClosed) {
  std::promise<void> ended;
  start(
      [&](const HttpRequest&) {
        auto stream = std::make_unique<TestStream>([](std::string& bytes) {
          bytes.append(BodyStream::kPiece, 'x');
          return Then::more();
        });
        stream->on_end = [&] { ended.set_value(); };
        return stream;
      },
      {.stall = std::chrono::milliseconds(100)});
  const UniqueFd fd = ask("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(ended.get_future().wait_until(soon().when()), std::future_status::ready);
}

// Neither the limit of a request's time nor that of a stall is one of a stream that has nothing.
TEST_F(HttpStream, OneThatWaitsIsWokenFromAnotherThread) {
  std::mutex mutex;
  std::deque<std::string> words;
  std::promise<std::function<void()>> begun;
  start(
      [&](const HttpRequest& request) {
        begun.set_value(request.wake);
        return std::make_unique<TestStream>([&](std::string& bytes) {
          std::lock_guard lock(mutex);
          if (words.empty()) return Then::wait(kNever);
          bytes += words.front();
          words.pop_front();
          return bytes == "end" ? Then::end() : Then::more();
        });
      },
      {.time = std::chrono::milliseconds(20), .stall = std::chrono::milliseconds(20)});
  HttpReplyReader reply = client_->open({.target = "/stream"}, soon());
  const std::function<void()> wake = begun.get_future().get();
  EXPECT_THROW(reply.read(Deadline::after(std::chrono::milliseconds(100))), TimeoutError);
  std::string read;
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      {
        std::lock_guard lock(mutex);
        words.push_back(i < 999 ? "word" : "end");
      }
      wake();
    }
  });
  for (std::string piece; !(piece = reply.read(soon())).empty();) read += piece;
  writer.join();
  EXPECT_EQ(read.size(), 999 * 4 + 3u);
  server_.reset();
  wake();  // there is no stream any more
}

TEST_F(HttpStream, OneThatWaitsIsAskedAgainAfterItsTime) {
  start([](const HttpRequest&) {
    return std::make_unique<TestStream>([i = 0](std::string& bytes) mutable {
      bytes += "x";
      return ++i == 5 ? Then::end() : Then::wait(std::chrono::milliseconds(1));
    });
  });
  EXPECT_EQ(client_->call({.target = "/"}, soon()).body, "xxxxx");
}

TEST_F(HttpStream, EndsWhenItsReaderGoesAway) {
  std::promise<void> ended;
  start([&](const HttpRequest&) {
    auto stream = std::make_unique<TestStream>([](std::string&) { return Then::wait(kNever); });
    stream->on_end = [&] { ended.set_value(); };
    return stream;
  });
  client_->open({.target = "/stream"}, soon());
  EXPECT_EQ(ended.get_future().wait_until(soon().when()), std::future_status::ready);
}

// Those that have not asked for anything yet make room.
TEST_F(HttpStream, OthersDoNotPushItOut) {
  std::promise<std::function<void()>> begun;
  std::atomic<bool> is_due = false;
  start(
      [&](const HttpRequest& request) {
        begun.set_value(request.wake);
        return std::make_unique<TestStream>([&](std::string& bytes) {
          if (!is_due) return Then::wait(kNever);
          bytes += "still here";
          return Then::end();
        });
      },
      {.connections = 16});
  HttpReplyReader reply = client_->open({.target = "/stream"}, soon());
  std::vector<UniqueFd> others;
  for (int i = 0; i < 100; ++i) others.push_back(ask("GET /"));
  EXPECT_EQ(client_->call({.target = "/small"}, soon()).body, "small");
  is_due = true;
  begun.get_future().get()();
  EXPECT_EQ(reply.read(soon()), "still here");
}

}  // namespace
}  // namespace cohort
