#include "cohort/service/api/api.h"

#include "cohort/base/text.h"
#include "cohort/service/api/allowed_stream.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/source_upload.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/origin.h"

namespace cohort::service {
namespace {

bool changes_things(const HttpRequest& request) {
  return request.method != "GET" && request.method != "HEAD";
}

bool has_body(const HttpRequest& head) {
  const std::string* length = find_header(head.headers, "content-length");
  return find_header(head.headers, "transfer-encoding") || (length && *length != "0");
}

// More than a body may have; one without a length is counted while it comes.
void require_fitting(const HttpRequest& head) {
  const std::string* length = find_header(head.headers, "content-length");
  const std::uint64_t most = head.method == "PUT" ? kMostSourceBytes : kMostBodyBytes;
  if (length && parse_unsigned(*length).value_or(0) > most)
    throw ApiError(413, fmt::format("the body has {} bytes, and may have {}", *length, most));
}

bool is_json(const HttpRequest& head) {
  const std::string* type = find_header(head.headers, "content-type");
  return type && trim(std::string_view(*type).substr(0, type->find(';'))) == "application/json";
}

// Whose rate signing in counts for. One for all of TCP: addresses are many.
std::string sign_in_name(const HttpRequest& head) {
  return head.peer.user ? fmt::format("user {} (signing in)", *head.peer.user) : "who signs in";
}

}  // namespace

Api::Api(ApiContext context, Options options)
    : context_(std::move(context)),
      options_(std::move(options)),
      rate_(options_.changes_a_second, options_.burst),
      last_used_(Clock::now()) {
  context_.touch = [this] { last_used_ = Clock::now(); };
}

Api::Clock::time_point Api::last_used() const { return last_used_; }

Api::Admitted Api::admit(const HttpRequest& head) {
  require_own_origin(head, options_.names);
  // Who asks comes first: strangers do not learn which paths there are.
  const bool is_open = is_open_route(api_routes(), head.method, head.target);
  Caller caller = is_open ? Caller{.user = sign_in_name(head)}
                          : authenticate(head, context_.tokens, context_.sessions, options_.own);
  RouteMatch match = match_route(api_routes(), head.method, head.target);
  if (caller.role < match.route->least)
    throw ApiError(403,
                   fmt::format("this needs the role {}, and {} has the role {}",
                               name_of(match.route->least), caller.user, name_of(caller.role)));
  return {std::move(match), std::move(caller)};
}

void Api::require_change_allowed(const HttpRequest& head, const Admitted& admitted) {
  if (!context_.has_root())
    throw ApiError(503,
                   fmt::format("the service's folder '{}' was removed or replaced",
                               context_.folders.root.string()),
                   {.advice = "Start the service again."});
  if (!rate_.take(admitted.caller.user))
    throw ApiError(429,
                   fmt::format("more than {} changes a second by {}", options_.changes_a_second,
                               admitted.caller.user),
                   {.advice = "Try again in a second."});
  require_fitting(head);
  if (head.method != "PUT" && has_body(head) && !is_json(head))
    throw ApiError(415, "the body must have Content-Type: application/json");
}

HttpDecision Api::on_head(const HttpRequest& head) {
  try {
    if (PageFiles::is_for_page(head)) return {};
    const Admitted admitted = admit(head);
    context_.touch();
    if (changes_things(head)) require_change_allowed(head, admitted);
    if (head.method == "PUT")
      return {.refusal = std::nullopt,
              .sink = source_upload(context_.folders, admitted.match.parts.at("sha256"),
                                    context_.background, head.wake)};
    return {};
  } catch (const std::exception&) {
    HttpResponse refusal = response_of(std::current_exception());
    if (refusal.status == 429) refusal.headers.emplace_back("Retry-After", "1");
    return {.refusal = std::move(refusal), .sink = nullptr};
  }
}

HttpResponse Api::page(const HttpRequest& request) {
  if (std::string_view(request.target).starts_with("/login?") &&
      !Query(query_of(request.target)).get("code").empty()) {
    require_own_origin(request, options_.names);
    context_.touch();
    return follow_link(request, context_);
  }
  require_own_host(request, options_.names);
  return context_.page.answer(request);
}

HttpResponse Api::handle(const HttpRequest& request) {
  if (PageFiles::is_for_page(request)) {
    try {
      return page(request);
    } catch (const std::exception&) {
      HttpResponse refusal = response_of(std::current_exception());
      for (auto& header : page_headers()) refusal.headers.push_back(std::move(header));
      return refusal;
    }
  }
  try {
    Admitted admitted = admit(request);
    ApiRequest asked{request, std::move(admitted.caller), Query(query_of(request.target)),
                     std::move(admitted.match.parts), context_};
    HttpResponse response = admitted.match.route->handler(asked);
    const Caller& caller = asked.caller;
    if (response.stream && (!caller.token.empty() || !caller.session.empty()))
      response.stream = while_allowed(std::move(response.stream), [this, caller] {
        return is_still_allowed(caller, context_.tokens, context_.sessions);
      });
    return response;
  } catch (const std::exception&) {
    return response_of(std::current_exception());
  }
}

}  // namespace cohort::service
