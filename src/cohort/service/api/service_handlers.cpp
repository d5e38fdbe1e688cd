#include <nlohmann/json.hpp>

#include "cohort/base/version.h"
#include "cohort/service/api/admin_token.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/api/openapi_document.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/json_body.h"
#include "cohort/service/http/time_text.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTokenDays = 90;
constexpr int kMostTokenDays = 3650;
constexpr std::size_t kMostUserName = 64;

Json size_json(const jobspec::Size& size) {
  return {{"cores", size.cores}, {"memory_bytes", size.memory_bytes}, {"gpus", size.gpus}};
}

HttpResponse new_token(int status, const NewToken& made) {
  Json json = token_json(made.row);
  json["token"] = made.secret;
  return json_response(status, dumped(json));
}

}  // namespace

HttpResponse get_service(ApiRequest& request) {
  const ApiContext& context = request.context;
  request.query.require_only({});
  int queued = 0, running = 0;
  for (const JobRow& job : context.store.unfinished_jobs())
    ++(job.state == JobState::queued ? queued : running);
  return json_response(200, dumped({{"version", kVersion},
                                    {"root", context.folders.root.string()},
                                    {"machine", size_json(context.machine())},
                                    {"free", size_json(context.free())},
                                    {"jobs", {{"queued", queued}, {"running", running}}},
                                    {"last_event", context.store.last_event()},
                                    {"user", request.caller.user},
                                    {"role", name_of(request.caller.role)},
                                    {"time", time_text(utc_now())}}));
}

HttpResponse get_openapi(ApiRequest&) {
  return json_response(200, std::string(openapi_document()));
}

HttpResponse list_tokens(ApiRequest& request) {
  Json tokens = Json::array();
  for (const TokenRow& row : request.context.tokens.list())
    if (request.caller.role == UserRole::admin || row.user == request.caller.user)
      tokens.push_back(token_json(row));
  return json_response(200, dumped({{"tokens", std::move(tokens)}}));
}

HttpResponse create_token(ApiRequest& request) {
  const Json body = parse_body(request.http.body, {"user", "role", "days"});
  const std::string user = text_field(body, "user");
  const auto role = user_role_of(text_field(body, "role"));
  const bool is_name =
      !user.empty() && user.size() <= kMostUserName &&
      std::none_of(user.begin(), user.end(), [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  if (!is_name)
    throw ApiError(400,
                   fmt::format("user must have 1 to {} characters, and no spaces", kMostUserName));
  if (!role) throw ApiError(400, "role must be viewer, user or admin");
  const int days = number_field(body, "days", 0, kMostTokenDays, kTokenDays);
  return new_token(201, request.context.tokens.create(user, *role, days));
}

HttpResponse remove_token(ApiRequest& request) {
  if (!request.context.tokens.remove(request.part("token")))
    throw ApiError(404, "there is no such token");
  return {.status = 204};
}

HttpResponse rotate_token(ApiRequest& request) {
  const auto row = request.context.tokens.find_id(request.part("token"));
  const Caller& caller = request.caller;
  // Not one with more rights than the caller has shown: its new secret would give them away.
  const bool is_own = row && row->user == caller.user && row->role <= caller.role;
  if (!row || (!is_own && caller.role != UserRole::admin))
    throw ApiError(404, "there is no such token");
  const auto in_file = admin_token(request.context.folders, request.context.tokens);
  const NewToken made = request.context.tokens.rotate(row->id);
  if (in_file && in_file->id == row->id) write_admin_token(request.context.folders, made.secret);
  return new_token(200, made);
}

}  // namespace cohort::service
