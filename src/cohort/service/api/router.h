#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/net/http_message.h"
#include "cohort/service/api/caller.h"
#include "cohort/service/http/url.h"

namespace cohort::service {

struct ApiContext;

// A request that was let in.
struct ApiRequest {
  const HttpRequest& http;
  Caller caller;
  Query query;
  std::map<std::string, std::string, std::less<>> parts;  // of the path: {"job", "2026..."}
  ApiContext& context;

  const std::string& part(std::string_view name) const { return parts.find(name)->second; }
};

// One operation of openapi.json. In `path` a segment "{name}" takes one segment of the target; the
// last one, when it is "{path}", takes all that are left.
struct Route {
  std::string_view method;
  std::string_view path;
  UserRole least;  // who may
  HttpResponse (*handler)(ApiRequest& request);
  bool is_open = false;  // to those who have not said who they are, too: signing in
};

struct RouteMatch {
  const Route* route = nullptr;
  std::map<std::string, std::string, std::less<>> parts;
};

// The first route of the table that fits. Throws ApiError: 400 for a target that cannot be decoded,
// 404 where no path fits, 405 where only the method does not. Pure.
RouteMatch match_route(const std::vector<Route>& table, std::string_view method,
                       std::string_view target);

// Whether the request is for one of the routes that are open to all. Pure.
bool is_open_route(const std::vector<Route>& table, std::string_view method,
                   std::string_view target);

// The part of a target behind the '?'; "" where there is none.
std::string_view query_of(std::string_view target);

}  // namespace cohort::service
