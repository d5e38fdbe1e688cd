#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/http_message.h"

namespace cohort {

// An HTTP/1.1 server of one request a connection, on one event loop: Boost.Beast parses, everything
// else is here, so that every byte is counted. Chunked bodies and "Expect: 100-continue" are
// understood. What breaks a limit is answered (400, 408 by its end, 413, 431, 503) and closed;
// nothing of it is left.
//
// Threads: one of its own, on which `handler` and `admit` run: they must not block. The methods may
// be called from any thread.
// Failure: the constructor throws SystemError when it cannot listen. An exception that leaves the
// handler is a 500, and is logged.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(HttpRequest request)>;
  // Whether a connection is let in, before anything of it is read; says why not by throwing Error.
  using Admit = std::function<void(int fd)>;

  // `name` is who logs: "Horovod's rendezvous".
  HttpServer(const Endpoint& bind, std::string name, const HttpLimits& limits, Handler handler,
             Admit admit = {});
  ~HttpServer();  // close()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

  // Ends every connection at once and joins the thread. May be called again.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace cohort
