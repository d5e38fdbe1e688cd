#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/net/http_stream.h"

// What HTTP servers, their connections and clients speak of.
namespace cohort {

// In the order sent. Names of what was received are in lower case.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The first value of that name (upper or lower case); null when there is none.
const std::string* find_header(const HttpHeaders& headers, std::string_view name);

// One as it is sent, with its line end. Throws InvalidInput for a control character: what comes
// after a line end would be a header of its own.
std::string header_line(std::string_view name, std::string_view value);

// Who is at the other end of a connection.
struct HttpPeer {
  std::optional<uid_t> user;  // of a Unix socket, as the system says
  std::string address;        // "10.0.0.7:41234"; "unix" for a Unix socket
  bool is_tls = false;
  std::size_t listener = 0;  // which of the server's it came by
};

struct HttpRequest {
  std::string method;  // "GET"
  std::string target;  // as sent: "/scope/key?x=1"
  HttpHeaders headers = {};
  HttpPeer peer = {};
  std::string body = {};
  // Asks the stream that answers this request for more. Any thread may call it at any time, also
  // when the connection or the server is gone.
  std::function<void()> wake = {};
};

struct HttpResponse;

// An answer that is made on another thread. On the server's thread; destroyed early when the
// connection ends.
class LaterAnswer {
 public:
  virtual ~LaterAnswer() = default;
  // Called when the request's `wake` was: the answer, or nothing: not yet. An exception is a 500.
  virtual std::optional<HttpResponse> take() = 0;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string type = "application/octet-stream";
  HttpHeaders headers = {};                      // beside type, length and connection
  std::unique_ptr<BodyStream> stream = nullptr;  // instead of `body`
  std::unique_ptr<LaterAnswer> later = nullptr;  // instead of all others
};

// Takes the body of one request in as it comes, instead of memory. On the server's thread;
// destroyed early when the connection ends.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual std::uint64_t limit() const = 0;  // bytes; more is answered with 413
  // An answer ends the request here: the rest is not read. An exception is a 500.
  virtual std::optional<HttpResponse> write(std::string_view piece) = 0;
  // The whole body is written: the answer. The server's handler is not called.
  virtual HttpResponse finish() = 0;
};

// What is done with a request, by its head alone: refused at once, or its body read, into `sink`
// or, where that is null, into memory.
struct HttpDecision {
  std::optional<HttpResponse> refusal = std::nullopt;
  std::unique_ptr<BodySink> sink = nullptr;
};

// What clients can make a server spend, whatever they send.
struct HttpLimits {
  std::size_t head = 8 * 1024;              // request line and headers
  std::size_t body = std::size_t{1} << 20;  // of one request, in memory
  // Of all requests that are not complete and answers that are not taken. Past it a request with a
  // body is refused, and the largest answers that wait for their readers are dropped.
  std::size_t pending = std::size_t{8} << 20;
  std::size_t connections = 256;           // past it the oldest goes, one without a stream first
  std::chrono::milliseconds time{5000};    // of one request, and again of its answer
  int requests = 1;                        // of one connection
  std::chrono::milliseconds idle{30'000};  // between two requests of a connection
  std::chrono::milliseconds stall{
      60'000};  // no byte of a stream's reader or a sink's writer, no later answer
};

}  // namespace cohort
