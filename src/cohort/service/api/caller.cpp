#include "cohort/service/api/caller.h"

#include <pwd.h>

#include <vector>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/page/cookies.h"

namespace cohort::service {
namespace {

constexpr std::string_view kBearer = "bearer ";

bool is_reading(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

std::string_view shown_token(const HttpRequest& request) {
  const std::string* header = find_header(request.headers, "authorization");
  if (!header || header->size() <= kBearer.size()) return {};
  for (std::size_t i = 0; i < kBearer.size(); ++i)
    if (std::tolower(static_cast<unsigned char>((*header)[i])) != kBearer[i]) return {};
  return trim(std::string_view(*header).substr(kBearer.size()));
}

Caller authenticate(const HttpRequest& request, const Tokens& tokens, const Sessions& sessions,
                    uid_t own) {
  if (const std::string_view secret = shown_token(request); !secret.empty()) {
    if (const auto token = tokens.find(secret))
      return {.user = token->user, .role = token->role, .token = Tokens::digest(secret)};
    throw ApiError(401, "this token is unknown, has expired or was replaced",
                   {.advice = "Ask an admin of the service for one: cohort token create"});
  }
  if (request.peer.user && (*request.peer.user == own || *request.peer.user == 0))
    return {.user = user_name(*request.peer.user), .role = UserRole::admin};
  const std::string session = shown_session(request);
  if (session.empty())
    throw ApiError(401, "this request needs a token",
                   {.advice = "Send it as the header: Authorization: Bearer TOKEN"});
  const auto owner = sessions.find(session);
  if (!owner)
    throw ApiError(401, "this session has ended",
                   {.advice = "Sign in again: with a token, or with: cohort open"});
  if (!is_reading(request) && !find_header(request.headers, "origin"))
    throw ApiError(403, "a change by a browser's session must say its Origin",
                   {.advice = "Programs show a token: Authorization: Bearer TOKEN"});
  return {.user = owner->user,
          .role = owner->role,
          .token = owner->token,
          .session = Tokens::digest(session)};
}

bool is_still_allowed(const Caller& caller, const Tokens& tokens, const Sessions& sessions) {
  if (!caller.session.empty()) return sessions.find_digest(caller.session).has_value();
  return caller.token.empty() || tokens.find_digest(caller.token).has_value();
}

bool may_see(const Caller& caller, std::string_view owner) {
  return caller.role != UserRole::user || caller.user == owner;
}

bool may_change(const Caller& caller, std::string_view owner) {
  return caller.role == UserRole::admin || (caller.role == UserRole::user && caller.user == owner);
}

std::string user_name(uid_t user) {
  std::vector<char> buffer(16 * 1024);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found)
    return found->pw_name;
  return std::to_string(user);
}

}  // namespace cohort::service
