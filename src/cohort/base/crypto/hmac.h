#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

// SHA-256, HMAC-SHA256, random bytes and what must not leak through timing or memory. Bytes are
// given as std::string_view.
namespace cohort {

using Digest = std::array<std::uint8_t, 32>;

std::string_view as_bytes(const Digest& digest);  // valid as long as `digest`

Digest sha256(std::string_view bytes);

// A key made ready once, for many messages. Confined to one thread at a time; movable.
class Hmac {
 public:
  explicit Hmac(std::string_view key);
  Hmac(Hmac&&) noexcept;
  Hmac& operator=(Hmac&&) noexcept;
  ~Hmac();

  // HMAC-SHA256 of the parts, one after the other. The parts are not delimited: callers whose parts
  // vary in length put the lengths in.
  Digest operator()(std::initializer_list<std::string_view> parts);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);

// Takes the same time wherever the first difference is. False when the sizes differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// From the system's cryptographic generator. Throws Error when it fails.
void fill_random(void* data, std::size_t size);

// Overwrites memory in a way that the compiler does not remove.
void wipe(void* data, std::size_t size);

}  // namespace cohort
