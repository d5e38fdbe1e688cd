#include "cohort/service/store/tokens.h"

#include <array>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/text.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

constexpr std::array<std::string_view, 3> kUserRoles = {"viewer", "user", "admin"};
constexpr Millis kDay = 24 * 3600 * Millis{1000};
constexpr int kMostDays = 3650;
constexpr std::string_view kPrefix = "ct_";
constexpr std::size_t kSecretBytes = 32;

// RFC 4648, without padding.
std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kDigits[bits << (6 - count) & 63];
  return text;
}

std::string new_secret() { return std::string(kPrefix) + random_secret(); }

// Hex digits alone: an id is an argument of commands, which take what begins with '-' for an option.
std::string new_id() {
  std::uint64_t number = 0;
  fill_random(&number, sizeof number);
  return fmt::format("{:012x}", number >> 16);
}

TokenRow token_of(const Statement& row) {
  const auto role = user_role_of(row.text(2));
  if (!role)
    throw InvalidInput(fmt::format("the run store (service.sqlite) is damaged: token {} is of '{}'",
                                   escape_controls(row.text(0)), escape_controls(row.text(2))));
  return {.id = row.text(0),
          .user = row.text(1),
          .role = *role,
          .created = row.integer(3),
          .expires = row.integer(4)};
}

}  // namespace

std::string random_secret() {
  std::string bytes(kSecretBytes, '\0');
  fill_random(bytes.data(), bytes.size());
  return base64url(bytes);
}

std::string_view name_of(UserRole role) { return kUserRoles.at(static_cast<std::size_t>(role)); }

std::optional<UserRole> user_role_of(std::string_view name) {
  for (std::size_t i = 0; i < kUserRoles.size(); ++i)
    if (kUserRoles[i] == name) return static_cast<UserRole>(i);
  return std::nullopt;
}

std::string Tokens::digest(std::string_view secret) { return to_hex(sha256(secret)); }

NewToken Tokens::create(std::string_view user, UserRole role, int days, Millis now) {
  if (user.empty()) throw InvalidInput("a token needs a user");
  if (days < 0 || days > kMostDays)
    throw InvalidInput(fmt::format("days {}: 1 to {}, or 0: never expires", days, kMostDays));
  NewToken token{.secret = new_secret(),
                 .row = {.id = new_id(),
                         .user = std::string(user),
                         .role = role,
                         .created = now,
                         .expires = days == 0 ? 0 : now + days * kDay}};
  store_.database()
      .prepare(
          "INSERT INTO tokens (id, digest, user, role, created, expires) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      .bind(token.row.id, digest(token.secret), user, name_of(role), now, token.row.expires)
      .run();
  return token;
}

std::optional<TokenRow> Tokens::find(std::string_view secret, Millis now) const {
  return find_digest(digest(secret), now);
}

std::optional<TokenRow> Tokens::find_digest(std::string_view digest, Millis now) const {
  auto row = store_.database().prepare(
      "SELECT id, user, role, created, expires FROM tokens WHERE digest = ?1 "
      "AND (expires = 0 OR expires > ?2)");
  row.bind(digest, now);
  if (!row.step()) return std::nullopt;
  return token_of(row);
}

std::optional<TokenRow> Tokens::find_id(std::string_view id) const {
  auto row = store_.database().prepare(
      "SELECT id, user, role, created, expires FROM tokens WHERE id = ?1");
  row.bind(id);
  if (!row.step()) return std::nullopt;
  return token_of(row);
}

std::vector<TokenRow> Tokens::list() const {
  auto row = store_.database().prepare(
      "SELECT id, user, role, created, expires FROM tokens ORDER BY created, id");
  std::vector<TokenRow> tokens;
  while (row.step()) tokens.push_back(token_of(row));
  return tokens;
}

bool Tokens::remove(std::string_view id) {
  store_.database().prepare("DELETE FROM tokens WHERE id = ?1").bind(id).run();
  return store_.database().changes() > 0;
}

NewToken Tokens::rotate(std::string_view id, Millis now) {
  auto row = find_id(id);
  if (!row) throw InvalidInput(fmt::format("there is no token '{}'", id));
  if (row->expires != 0) row->expires = now + (row->expires - row->created);
  row->created = now;
  NewToken token{.secret = new_secret(), .row = *row};
  store_.database()
      .prepare("UPDATE tokens SET digest = ?2, created = ?3, expires = ?4 WHERE id = ?1")
      .bind(id, digest(token.secret), row->created, row->expires)
      .run();
  return token;
}

}  // namespace cohort::service
