#include "cohort/base/net/tls_certificates.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/base/net/tls_socket.h"

namespace cohort {
namespace {

struct FreeSslContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeSslContext>;

SslContextPtr new_context(const SSL_METHOD* method) {
  SslContextPtr context(SSL_CTX_new(method));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1)
    throw Error(fmt::format("cannot set up TLS: {}", openssl_reason()));
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

SslPtr new_connection(SSL_CTX* context) {
  SslPtr ssl(SSL_new(context));
  if (!ssl) throw Error(fmt::format("cannot start TLS: {}", openssl_reason()));
  return ssl;
}

InvalidInput bad_file(const char* what, const std::filesystem::path& path, const char* advice) {
  const std::string reason =  // OpenSSL has none for a file that it cannot open
      ::access(path.c_str(), R_OK) == 0 ? openssl_reason() : std::string(std::strerror(errno));
  return InvalidInput(fmt::format("cannot use {} as {}: {}", path.string(), what, reason),
                      {.advice = advice});
}

// Throws InvalidInput that names the file.
void use_own_certificate(SSL_CTX* context, const std::filesystem::path& certificate,
                         const std::filesystem::path& key) {
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });  // never asks
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    throw bad_file("a TLS certificate", certificate, "Give a PEM file.");
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    throw bad_file("the key of that certificate", key,
                   "Give the PEM file of the certificate's own key, without a password.");
}

}  // namespace

struct TlsServerContext::State {
  SslContextPtr context = new_context(TLS_server_method());
};

TlsServerContext::TlsServerContext(const std::filesystem::path& certificate,
                                   const std::filesystem::path& key)
    : state_(std::make_unique<State>()) {
  ERR_clear_error();
  use_own_certificate(state_->context.get(), certificate, key);
}
TlsServerContext::~TlsServerContext() = default;

std::unique_ptr<Channel> TlsServerContext::make_channel(UniqueFd socket) const {
  SslPtr ssl = new_connection(state_->context.get());
  SSL_set_accept_state(ssl.get());
  return make_tls_socket(std::move(ssl), std::move(socket), nullptr);
}

struct TlsClientContext::State {
  SslContextPtr context = new_context(TLS_client_method());
};

TlsClientContext::TlsClientContext(const std::filesystem::path& ca_file,
                                   const std::filesystem::path& certificate,
                                   const std::filesystem::path& key)
    : state_(std::make_unique<State>()) {
  SSL_CTX* context = state_->context.get();
  ERR_clear_error();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) != 1) {
    throw bad_file("certificates to trust", ca_file, "Give a PEM file.");
  }
  if (!certificate.empty()) use_own_certificate(context, certificate, key);
}
TlsClientContext::~TlsClientContext() = default;

std::unique_ptr<Channel> TlsClientContext::make_channel(UniqueFd socket,
                                                        const std::string& host) const {
  SslPtr ssl = new_connection(state_->context.get());
  SSL_set_connect_state(ssl.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) != 1 &&
      (SSL_set1_host(ssl.get(), host.c_str()) != 1 ||
       SSL_set_tlsext_host_name(ssl.get(), host.c_str()) != 1))
    throw InvalidInput(fmt::format("'{}' cannot be the name of a TLS server", host));
  ERR_clear_error();
  return make_tls_socket(std::move(ssl), std::move(socket), nullptr);
}

}  // namespace cohort
