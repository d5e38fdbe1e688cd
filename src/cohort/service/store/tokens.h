#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/service/store/run_store.h"

namespace cohort::service {

enum class UserRole { viewer, user, admin };

std::string_view name_of(UserRole role);
std::optional<UserRole> user_role_of(std::string_view name);

struct TokenRow {
  std::string id;  // short, for people: 12 hexadecimal digits; no secret
  std::string user;
  UserRole role = UserRole::user;
  Millis created = 0;
  Millis expires = 0;  // 0: never
};

struct NewToken {
  std::string secret;  // "ct_..."; told once, nowhere kept
  TokenRow row;
};

// 32 random bytes, as text of letters, digits, '-' and '_'.
std::string random_secret();

// What users of the HTTP API prove who they are with: 32 random bytes, of which the store keeps the
// SHA-256. Confined to the thread of the store.
class Tokens {
 public:
  explicit Tokens(RunStore& store) : store_(store) {}

  // `days`: 1 to 3650, or 0: never expires. Throws InvalidInput for an empty user or other days.
  NewToken create(std::string_view user, UserRole role, int days, Millis now = utc_now());
  // Nothing for a secret that was never given out, was removed, or has expired. Looks up a digest:
  // how long it takes tells nothing about other secrets.
  std::optional<TokenRow> find(std::string_view secret, Millis now = utc_now()) const;
  // The same of a secret that is not kept: by its digest.
  static std::string digest(std::string_view secret);
  std::optional<TokenRow> find_digest(std::string_view digest, Millis now = utc_now()) const;
  std::optional<TokenRow> find_id(std::string_view id) const;
  std::vector<TokenRow> list() const;  // oldest first, expired ones too
  bool remove(std::string_view id);
  // A new secret under the same id, user and role, for as many days as the old one was made for;
  // the old secret ends at once. Throws InvalidInput when there is no such token.
  NewToken rotate(std::string_view id, Millis now = utc_now());

 private:
  RunStore& store_;
};

}  // namespace cohort::service
