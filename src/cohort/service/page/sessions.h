#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/service/store/tokens.h"

namespace cohort::service {

// Whose rights a session or a one-time link gives.
struct SessionOwner {
  std::string user;
  UserRole role = UserRole::viewer;
  std::string token =
      {};  // the digest of the token that they come from; "": the service's own user
};

// Who is signed in with a browser, and the one-time links by which they sign in.
//
// A session is a random secret in a cookie, of which the store keeps the SHA-256: it outlives the
// service, and ends after 12 h, when it is signed out, and with the token that it was begun with
// (removed, replaced, expired). A link's code is kept in memory, works once, and for 60 s.
//
// Threads: confined to that of the store. Failure: as the store.
class Sessions {
 public:
  static constexpr std::chrono::hours kAge{12};
  static constexpr std::chrono::seconds kLinkAge{60};

  explicit Sessions(RunStore& store) : store_(store), tokens_(store) {}

  // The code of a new link. At most kMostLinks wait to be used: past it, the oldest is given up.
  std::string make_link(const SessionOwner& owner, Millis now = utc_now());
  // Whose link it was; nothing for a code that was never given out, was used, or is too old.
  std::optional<SessionOwner> use_link(std::string_view code, Millis now = utc_now());

  // The secret of a new session.
  std::string begin(const SessionOwner& owner, Millis now = utc_now());
  // Whose session it is, with the role that the token has now; nothing when it has ended.
  std::optional<SessionOwner> find(std::string_view secret, Millis now = utc_now()) const;
  // The same of a secret that is not kept: by Tokens::digest().
  std::optional<SessionOwner> find_digest(const std::string& digest, Millis now = utc_now()) const;
  void end(std::string_view secret);
  bool has_any(Millis now = utc_now()) const;  // that has not ended by its age

 private:
  static constexpr std::size_t kMostLinks = 1000;
  struct Link {
    SessionOwner owner;
    Millis expires = 0;
  };

  RunStore& store_;
  Tokens tokens_;
  std::map<std::string, Link> links_;  // by the digest of their code
};

}  // namespace cohort::service
