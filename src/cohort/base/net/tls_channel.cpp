#include "cohort/base/net/tls_channel.h"

#include <openssl/ssl.h>

#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/net/tls_socket.h"

namespace cohort {

namespace {

constexpr unsigned char kPskIdentity[] = "cohort";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

SSL_SESSION* make_session(SSL* ssl) {
  const auto* key = static_cast<const Digest*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, key->data(), key->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int use_psk(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
            SSL_SESSION** session) {
  *session = make_session(ssl);
  *identity = kPskIdentity;
  *size = sizeof kPskIdentity - 1;
  return *session != nullptr ? 1 : 0;
}

int find_psk(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (size == sizeof kPskIdentity - 1 && std::memcmp(identity, kPskIdentity, size) == 0)
    *session = make_session(ssl);
  return 1;
}

// A server that shows a certificate instead of the key is not of this job.
void require_psk(SSL* ssl) {
  if (SSL_session_reused(ssl) != 1)
    throw AuthError("the other side does not hold the job's TLS key");
}

}  // namespace

struct TlsContext::State {
  Digest key{};
  SSL_CTX* context = nullptr;

  ~State() {
    SSL_CTX_free(context);
    wipe(key.data(), key.size());
  }
};

TlsContext::TlsContext(const Digest& key) : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->context = SSL_CTX_new(TLS_method());
  SSL_CTX* context = state_->context;
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1)
    throw Error(fmt::format("cannot set up TLS: {}", openssl_reason()));
  SSL_CTX_set_app_data(context, &state_->key);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, use_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Channel> TlsContext::make_channel(UniqueFd socket, bool server) const {
  SslPtr ssl(SSL_new(state_->context));
  if (!ssl) throw Error(fmt::format("cannot start TLS: {}", openssl_reason()));
  if (!server) SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  server ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
  return make_tls_socket(std::move(ssl), std::move(socket), require_psk);
}

}  // namespace cohort
