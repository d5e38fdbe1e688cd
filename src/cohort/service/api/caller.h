#pragma once

#include <sys/types.h>

#include <string>

#include "cohort/base/net/http_message.h"
#include "cohort/service/store/tokens.h"

// Who asks, and what they may.
namespace cohort::service {

struct Caller {
  std::string user;
  UserRole role = UserRole::viewer;
};

// On a Unix socket the user `own` and root need no token and are admin, under their own names;
// all others show one ("Authorization: Bearer TOKEN"). Throws ApiError (401).
Caller authenticate(const HttpRequest& request, const Tokens& tokens, uid_t own);

// The token that a request shows; "": none.
std::string_view shown_token(const HttpRequest& request);

// A viewer and an admin see all jobs, a user their own.
bool may_see(const Caller& caller, std::string_view owner);
// An admin changes all jobs, a user their own, a viewer none.
bool may_change(const Caller& caller, std::string_view owner);

// The name of a user of this machine; the number where it has none.
std::string user_name(uid_t user);

}  // namespace cohort::service
