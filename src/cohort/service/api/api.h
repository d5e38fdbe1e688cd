#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cohort/service/api/api_context.h"
#include "cohort/service/api/rate_limit.h"
#include "cohort/service/api/router.h"

namespace cohort::service {

constexpr std::size_t kMostBodyBytes = std::size_t{1} << 20;  // of JSON

// HTTP API v1 (openapi.json) and the page that uses it: lets requests in, and answers them. What an
// HttpServer calls.
//
// What is read outside of /v1 is the page (page_files.h). Every other request passes, in this order: Host and Origin, a route, who asks, their role, and for
// changes the rate, the size and the type of the body. Only then is the body read.
//
// Threads: confined to that of the server; last_used() from any.
// Failure: none leaves it; every exception is an answer.
class Api {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    uid_t own;                       // who is admin on the Unix socket
    std::vector<std::string> names;  // of this service, as hosts
    double changes_a_second = 50;    // of one user
    double burst = 200;
  };

  Api(ApiContext context, Options options);

  HttpDecision on_head(const HttpRequest& head);
  HttpResponse handle(const HttpRequest& request);

  // When a request was let in, or a stream sent something, last.
  Clock::time_point last_used() const;

 private:
  struct Admitted {
    RouteMatch match;
    Caller caller;
  };
  Admitted admit(const HttpRequest& head);
  HttpResponse page(const HttpRequest& request);
  void require_change_allowed(const HttpRequest& head, const Admitted& admitted);

  ApiContext context_;
  Options options_;
  RateLimit rate_;
  std::atomic<Clock::time_point> last_used_;
};

// Every operation of openapi.json.
const std::vector<Route>& api_routes();

}  // namespace cohort::service
