#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cohort/base/crypto/hmac.h"

namespace cohort {

// SHA-256 of bytes that come in portions. Confined to one thread at a time; movable.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::string_view bytes);
  // The digest of everything so far. Call once: nothing may follow.
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Lower-case hexadecimal digits.
std::string to_hex(const Digest& digest);

}  // namespace cohort
