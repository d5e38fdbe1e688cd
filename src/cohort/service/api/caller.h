#pragma once

#include <sys/types.h>

#include <string>

#include "cohort/base/net/http_message.h"
#include "cohort/service/page/sessions.h"

// Who asks, and what they may.
namespace cohort::service {

struct Caller {
  std::string user;
  UserRole role = UserRole::viewer;
  std::string token = {};    // the digest of the token that the rights come from; "": none
  std::string session = {};  // the digest of the secret of a browser's session; "": none
};

// On a Unix socket the user `own` and root need no token and are admin, under their own names;
// all others show one ("Authorization: Bearer TOKEN"), or the cookie of a session (sessions.h). What
// changes things with a cookie must say its Origin, as pages do: origin.h has compared it. Throws
// ApiError (401, 403).
Caller authenticate(const HttpRequest& request, const Tokens& tokens, const Sessions& sessions,
                    uid_t own);

// Whether what the caller showed is valid still: for answers that go on for long.
bool is_still_allowed(const Caller& caller, const Tokens& tokens, const Sessions& sessions);

// The token that a request shows; "": none.
std::string_view shown_token(const HttpRequest& request);

// A viewer and an admin see all jobs, a user their own.
bool may_see(const Caller& caller, std::string_view owner);
// An admin changes all jobs, a user their own, a viewer none.
bool may_change(const Caller& caller, std::string_view owner);

// The name of a user of this machine; the number where it has none.
std::string user_name(uid_t user);

}  // namespace cohort::service
