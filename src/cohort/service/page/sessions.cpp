#include "cohort/service/page/sessions.h"

#include <algorithm>

#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

constexpr Millis millis(std::chrono::milliseconds time) { return time.count(); }

}  // namespace

std::string Sessions::make_link(const SessionOwner& owner, Millis now) {
  std::erase_if(links_, [now](const auto& link) { return link.second.expires <= now; });
  if (links_.size() >= kMostLinks)
    links_.erase(std::min_element(links_.begin(), links_.end(), [](const auto& a, const auto& b) {
      return a.second.expires < b.second.expires;
    }));
  std::string code = random_secret();
  links_[Tokens::digest(code)] = {owner, now + millis(kLinkAge)};
  return code;
}

std::optional<SessionOwner> Sessions::use_link(std::string_view code, Millis now) {
  const auto node = links_.extract(Tokens::digest(code));
  if (node.empty() || node.mapped().expires <= now) return std::nullopt;
  return node.mapped().owner;
}

std::string Sessions::begin(const SessionOwner& owner, Millis now) {
  std::string secret = random_secret();
  store_.together([&] {
    store_.database().prepare("DELETE FROM sessions WHERE expires <= ?1").bind(now).run();
    store_.database()
        .prepare(
            "INSERT INTO sessions (digest, token, user, role, expires) VALUES (?1, ?2, ?3, ?4, ?5)")
        .bind(Tokens::digest(secret), owner.token, owner.user, name_of(owner.role),
              now + millis(kAge))
        .run();
  });
  return secret;
}

std::optional<SessionOwner> Sessions::find(std::string_view secret, Millis now) const {
  return find_digest(Tokens::digest(secret), now);
}

std::optional<SessionOwner> Sessions::find_digest(const std::string& digest, Millis now) const {
  SessionOwner owner;
  {
    auto row = store_.database().prepare(
        "SELECT user, role, token FROM sessions WHERE digest = ?1 AND expires > ?2");
    row.bind(digest, now);
    if (!row.step()) return std::nullopt;
    const auto role = user_role_of(row.text(1));
    if (!role) return std::nullopt;
    owner = {.user = row.text(0), .role = *role, .token = row.text(2)};
  }
  if (owner.token.empty()) return owner;
  const auto token = tokens_.find_digest(owner.token, now);
  if (!token) return std::nullopt;
  owner.user = token->user;
  owner.role = token->role;
  return owner;
}

bool Sessions::has_any(Millis now) const {
  auto row = store_.database().prepare("SELECT EXISTS (SELECT 1 FROM sessions WHERE expires > ?1)");
  row.bind(now);
  return row.step() && row.integer(0) != 0;
}

void Sessions::end(std::string_view secret) {
  store_.database()
      .prepare("DELETE FROM sessions WHERE digest = ?1")
      .bind(Tokens::digest(secret))
      .run();
}

}  // namespace cohort::service
