#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/json_body.h"
#include "cohort/service/page/cookies.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNext = 2000;

// A path of this service, as a browser reads it: "//host" and "/\host" would be another's. The
// characters are those that a path and a query are written with.
bool is_local_path(std::string_view path) {
  if (path.empty() || path.size() > kMostNext || path.front() != '/') return false;
  if (path.size() > 1 && (path[1] == '/' || path[1] == '\\')) return false;
  return std::all_of(path.begin(), path.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '\\' && c != '"' && c != '<';
  });
}

HttpResponse begun(int status, const HttpRequest& request, ApiContext& context,
                   const SessionOwner& owner) {
  HttpResponse response{.status = status};
  const std::string secret = context.sessions.begin(owner);
  response.headers.emplace_back("Set-Cookie", session_cookie(request, secret, Sessions::kAge));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

HttpResponse create_link(ApiRequest& request) {
  request.query.require_only({});
  const Caller& caller = request.caller;
  const std::string code = request.context.sessions.make_link(
      {.user = caller.user, .role = caller.role, .token = caller.token});
  return json_response(201,
                       dumped({{"path", fmt::format("/login?code={}", code)},
                               {"seconds", std::chrono::seconds(Sessions::kLinkAge).count()}}));
}

HttpResponse begin_session(ApiRequest& request) {
  request.query.require_only({});
  const Json body = parse_body(request.http.body, {"token"});
  const std::string secret = text_field(body, "token");
  const auto token = request.context.tokens.find(trim(secret));
  if (!token)
    throw ApiError(401, "this token is unknown, has expired or was replaced",
                   {.advice = "Ask an admin of the service for one: cohort token create"});
  return begun(204, request.http, request.context,
               {.user = token->user, .role = token->role, .token = Tokens::digest(trim(secret))});
}

HttpResponse end_session(ApiRequest& request) {
  request.query.require_only({});
  if (const std::string secret = shown_session(request.http); !secret.empty())
    request.context.sessions.end(secret);
  HttpResponse response{.status = 204};
  response.headers.emplace_back("Set-Cookie",
                                session_cookie(request.http, "", std::chrono::seconds(0)));
  return response;
}

HttpResponse open_listener(ApiRequest& request) {
  request.query.require_only({});
  return json_response(200, dumped({{"address", request.context.page_address()}}));
}

HttpResponse follow_link(const HttpRequest& request, ApiContext& context) {
  const Query query(query_of(request.target));
  query.require_only({"code", "next"});
  const std::string asked = query.get("next");
  const std::string next = asked.empty() ? "/" : asked;
  if (!is_local_path(next))
    throw ApiError(400, fmt::format("next is '{}', and must be a path of this service",
                                    escape_controls(asked)));
  const bool reads_only = request.method == "HEAD";  // a preview does not use the link up
  const auto owner = reads_only ? std::nullopt : context.sessions.use_link(query.get("code"));
  HttpResponse response =
      owner ? begun(303, request, context, *owner) : HttpResponse{.status = 303};
  for (auto& header : page_headers()) response.headers.push_back(std::move(header));
  if (!owner) response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("Location", owner ? next : "/login?link=invalid");
  return response;
}

}  // namespace cohort::service
