#include "cohort/base/crypto/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <string>

#include "cohort/base/error.h"

namespace cohort {
namespace {

[[noreturn]] void fail(const char* action) {
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  throw Error(fmt::format("OpenSSL cannot {}: {}", action, text),
              {.advice = "Check that OpenSSL 3 and its default provider are installed."});
}

const unsigned char* data_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string_view as_bytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest sha256(std::string_view bytes) {
  Digest digest;
  if (EVP_Q_digest(nullptr, "SHA256", nullptr, bytes.data(), bytes.size(), digest.data(),
                   nullptr) != 1)
    fail("compute SHA-256");
  return digest;
}

struct Hmac::Context {
  EVP_MAC* mac = nullptr;
  EVP_MAC_CTX* state = nullptr;
  ~Context() {
    EVP_MAC_CTX_free(state);
    EVP_MAC_free(mac);
  }
};

Hmac::Hmac(std::string_view key) : context_(std::make_unique<Context>()) {
  context_->mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  if (!context_->mac) fail("find HMAC");
  context_->state = EVP_MAC_CTX_new(context_->mac);
  if (!context_->state) fail("make room for HMAC");
  std::string digest = "SHA256";
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_end()};
  if (EVP_MAC_init(context_->state, data_of(key), key.size(), parameters) != 1)
    fail("set the key of HMAC");
}

Hmac::Hmac(Hmac&&) noexcept = default;
Hmac& Hmac::operator=(Hmac&&) noexcept = default;
Hmac::~Hmac() = default;

Digest Hmac::operator()(std::initializer_list<std::string_view> parts) {
  if (EVP_MAC_init(context_->state, nullptr, 0, nullptr) != 1) fail("restart HMAC");
  for (auto part : parts)
    if (EVP_MAC_update(context_->state, data_of(part), part.size()) != 1) fail("compute HMAC");
  Digest digest;
  size_t size = 0;
  if (EVP_MAC_final(context_->state, digest.data(), &size, digest.size()) != 1 ||
      size != digest.size())
    fail("finish HMAC");
  return digest;
}

Digest hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  return Hmac(key)(parts);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(void* data, std::size_t size) {
  if (RAND_bytes(static_cast<unsigned char*>(data), static_cast<int>(size)) != 1)
    fail("produce random bytes");
}

void wipe(void* data, std::size_t size) { OPENSSL_cleanse(data, size); }

}  // namespace cohort
