#include "cohort/base/crypto/sha256_stream.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "cohort/base/error.h"

namespace cohort {
namespace {

void expect(int result, const char* action) {
  if (result != 1)
    throw Error(fmt::format("OpenSSL cannot {} SHA-256", action),
                {.advice = "Check that OpenSSL 3 and its default provider are installed."});
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(state); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  expect(context_->state && EVP_DigestInit_ex(context_->state, EVP_sha256(), nullptr), "begin");
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  expect(EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()), "compute");
}

Digest Sha256::finish() {
  Digest digest;
  expect(EVP_DigestFinal_ex(context_->state, digest.data(), nullptr), "finish");
  return digest;
}

std::string to_hex(const Digest& digest) {
  std::string text;
  for (auto byte : digest) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

}  // namespace cohort
