#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/http_message.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

class TlsClientContext;

// Ends the calls of clients that were given it, from a signal handler or another thread.
class HttpCancel {
 public:
  HttpCancel();            // throws SystemError
  void cancel() noexcept;  // safe in a signal handler; for good
  bool is_cancelled() const { return is_cancelled_.load(); }
  int fd() const { return event_.get(); }  // readable once cancelled

 private:
  std::atomic<bool> is_cancelled_ = false;
  UniqueFd event_;
};

// A call ended by its HttpCancel.
class HttpCancelled : public Error {
  using Error::Error;
};

struct HttpClientOptions {
  Endpoint server;
  bool tls = false;
  std::filesystem::path ca_file =
      {};  // whom a TLS server is checked against; the system's if empty
  std::filesystem::path certificate = {}, key = {};  // by which this side proves itself; PEM
  HttpHeaders headers = {};            // of every request: {"Authorization", "Bearer ..."}
  const HttpCancel* cancel = nullptr;  // must outlive the client's calls

  // "http://host:port", "https://host[:port]", "unix:/path". Throws InvalidInput.
  static HttpClientOptions at(std::string_view url);
};

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";  // encoded by the caller
  HttpHeaders headers = {};  // {"Content-Type", "application/json"}
  std::string body = {};
  std::filesystem::path file = {};  // the body, if not empty
};

struct HttpReply {
  int status = 0;
  HttpHeaders headers = {};
  std::string body = {};
};

// A reply whose head is read and whose body is still to come.
// Confined to one thread. Failure: as HttpClient.
class HttpReplyReader {
 public:
  ~HttpReplyReader();
  HttpReplyReader(HttpReplyReader&&) noexcept;

  int status() const;
  const HttpHeaders& headers() const;
  // The next bytes of the body; empty at its end.
  std::string read(Deadline deadline);

 private:
  friend class HttpClient;
  class State;
  explicit HttpReplyReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Calls of an HTTP/1.1 server that wait for the reply, one connection each. A status is a reply,
// whatever it says; redirections are not followed.
//
// Threads: any number may call it. Only HttpCancel, the deadline and the reply end a call; making
// the connection takes 10 s at most and does not look at HttpCancel.
// Failure: PeerError (no server there, or it broke off, also in the middle of a body), TimeoutError,
// AuthError (its certificate is not to be trusted, or not of that name), ProtocolError (not HTTP,
// a reply beyond its limit), HttpCancelled, SystemError (the body's file).
class HttpClient {
 public:
  using Sink = std::function<void(std::string_view piece)>;

  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();

  // A reply whose body is of `most` bytes at most.
  HttpReply call(const HttpCall& call, Deadline deadline, std::size_t most = 64 << 20) const;
  // The body of a 2xx goes to `sink`, piece by piece; that of another status into the reply.
  HttpReply download(const HttpCall& call, const Sink& sink, Deadline deadline) const;
  // For a body that is read as it comes: see SseReader.
  HttpReplyReader open(const HttpCall& call, Deadline deadline) const;

 private:
  HttpClientOptions options_;
  std::unique_ptr<TlsClientContext> tls_;  // null: none
};

}  // namespace cohort
