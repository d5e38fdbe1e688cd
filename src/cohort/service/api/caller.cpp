#include "cohort/service/api/caller.h"

#include <pwd.h>

#include <vector>

#include "cohort/base/text.h"
#include "cohort/service/api/api_error.h"

namespace cohort::service {
namespace {

constexpr std::string_view kBearer = "bearer ";

}  // namespace

std::string_view shown_token(const HttpRequest& request) {
  const std::string* header = find_header(request.headers, "authorization");
  if (!header || header->size() <= kBearer.size()) return {};
  for (std::size_t i = 0; i < kBearer.size(); ++i)
    if (std::tolower(static_cast<unsigned char>((*header)[i])) != kBearer[i]) return {};
  return trim(std::string_view(*header).substr(kBearer.size()));
}

Caller authenticate(const HttpRequest& request, const Tokens& tokens, uid_t own) {
  if (const std::string_view secret = shown_token(request); !secret.empty()) {
    if (const auto token = tokens.find(secret)) return {token->user, token->role};
    throw ApiError(401, "this token is unknown, has expired or was replaced",
                   {.advice = "Ask an admin of the service for one: cohort token create"});
  }
  if (request.peer.user && (*request.peer.user == own || *request.peer.user == 0))
    return {user_name(*request.peer.user), UserRole::admin};
  throw ApiError(401, "this request needs a token",
                 {.advice = "Send it as the header: Authorization: Bearer TOKEN"});
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
