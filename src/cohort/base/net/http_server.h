#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/http_message.h"

namespace cohort {

// One place where an HttpServer listens.
struct HttpListener {
  // PEM files: the certificate with those above it, its key.
  struct Tls {
    std::filesystem::path certificate, key;
  };
  // Whether a connection is let in, before anything of it is read; says why not by throwing Error.
  using Admit = std::function<void(int fd)>;

  // The file of a Unix socket has mode 0600. One that an earlier server left is replaced; the
  // server's own is gone when it closes.
  Endpoint bind;
  std::optional<Tls> tls = std::nullopt;  // TLS 1.2 or later
  Admit admit = {};
};

// An HTTP/1.1 server on one event loop: Boost.Beast parses, everything else is here, so that every
// byte is counted. Chunked bodies, "Expect: 100-continue", HEAD and, where limits.requests allow,
// connections that are kept for the next request are understood. What breaks a limit is answered
// (400, 413, 431, 503) and closed; nothing of it is left.
//
// Threads: one of its own, on which every function and object that it is given runs: they must not
// block. The methods may be called from any thread, unless they say otherwise.
// Failure: the constructor throws SystemError when it cannot listen, InvalidInput for a certificate
// or key that is none. An exception that leaves a handler is a 500, and is logged.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(HttpRequest request)>;
  // Called when the head of a request is there and before its body is read.
  using OnHead = std::function<HttpDecision(const HttpRequest& head)>;

  // `name` is who logs: "Horovod's rendezvous".
  HttpServer(std::vector<HttpListener> listeners, std::string name, const HttpLimits& limits,
             Handler handler, OnHead on_head = {});
  ~HttpServer();  // close()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port(std::size_t listener = 0) const;  // 0 for a Unix socket

  // One more place to listen, by a handler of this server only: the number that port() takes. Throws
  // as the constructor does; nothing has changed then.
  std::size_t listen(HttpListener listener);

  // Ends every connection at once and joins the thread. May be called again.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace cohort
