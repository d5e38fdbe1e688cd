#include "cohort/base/net/tls_channel.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cohort/base/error.h"

namespace cohort {

namespace {

constexpr unsigned char kPskIdentity[] = "cohort";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? reason : "no reason given";
}

// OpenSSL's own socket BIO writes with write(), which raises SIGPIPE.
int bio_fd(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::send(bio_fd(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = ::recv(bio_fd(bio), data, static_cast<std::size_t>(size), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

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

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

class TlsChannel : public Channel {
 public:
  TlsChannel(SSL_CTX* context, BIO_METHOD* method, UniqueFd socket, bool server)
      : socket_(std::move(socket)), ssl_(SSL_new(context)) {
    BIO* bio = ssl_ != nullptr ? BIO_new(method) : nullptr;
    if (bio == nullptr) throw Error(fmt::format("cannot start TLS: {}", openssl_reason()));
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket_.get())));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (!server) SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
    server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }

  int fd() const override { return socket_.get(); }

  IoResult greet() override {
    ERR_clear_error();
    const int code = SSL_do_handshake(ssl_.get());
    if (code == 1) {
      // A server that shows a certificate instead of the key is not of this job.
      if (SSL_session_reused(ssl_.get()) != 1)
        throw AuthError("the other side does not hold the job's TLS key");
      return {};
    }
    const int error = SSL_get_error(ssl_.get(), code);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
      return {IoResult::Status::would_block, 0, 0};
    if (error == SSL_ERROR_SSL)
      throw AuthError(fmt::format("TLS with the other side failed: {}", openssl_reason()));
    return failure(error);
  }

  IoResult read(const iovec* places, int count) override {
    return repeat(places, count, [&](std::byte* place, std::size_t size, std::size_t& moved) {
      return SSL_read_ex(ssl_.get(), place, size, &moved);
    });
  }

  IoResult write(const iovec* places, int count) override {
    return repeat(places, count, [&](std::byte* place, std::size_t size, std::size_t& moved) {
      return SSL_write_ex(ssl_.get(), place, size, &moved);
    });
  }

  void finish() noexcept override {
    if (SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ::shutdown(socket_.get(), SHUT_WR);
  }

 private:
  // OpenSSL takes one place at a time, and a record of it at most.
  template <typename Move>
  IoResult repeat(const iovec* places, int count, Move&& move) {
    std::size_t total = 0;
    for (int i = 0; i < count; ++i) {
      auto* place = static_cast<std::byte*>(places[i].iov_base);
      for (std::size_t filled = 0; filled < places[i].iov_len;) {
        ERR_clear_error();
        std::size_t moved = 0;
        const int code = move(place + filled, places[i].iov_len - filled, moved);
        if (code != 1) {
          // A record that is not authentic throws here, whatever came before it.
          const IoResult result = failure(SSL_get_error(ssl_.get(), code));
          return total > 0 ? IoResult{IoResult::Status::progress, total, 0} : result;
        }
        filled += moved;
        total += moved;
      }
    }
    return {IoResult::Status::progress, total, 0};
  }

  static IoResult failure(int error) {
    switch (error) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {IoResult::Status::would_block, 0, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {IoResult::Status::closed, 0, 0};
      case SSL_ERROR_SYSCALL: {
        const int code = errno;
        ERR_clear_error();
        if (code == 0) return {IoResult::Status::closed, 0, 0};
        return {IoResult::Status::failed, 0, code};
      }
      default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
          ERR_clear_error();
          return {IoResult::Status::closed, 0, 0};
        }
        throw ProtocolError(
            fmt::format("the TLS connection was damaged on the way: {}", openssl_reason()));
    }
  }

  UniqueFd socket_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace

struct TlsContext::State {
  Digest key{};
  SSL_CTX* context = nullptr;
  BIO_METHOD* method = nullptr;

  ~State() {
    SSL_CTX_free(context);
    BIO_meth_free(method);
    wipe(key.data(), key.size());
  }
};

TlsContext::TlsContext(const Digest& key) : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->context = SSL_CTX_new(TLS_method());
  state_->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cohort socket");
  SSL_CTX* context = state_->context;
  if (context == nullptr || state_->method == nullptr ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1)
    throw Error(fmt::format("cannot set up TLS: {}", openssl_reason()));
  BIO_meth_set_write(state_->method, bio_write);
  BIO_meth_set_read(state_->method, bio_read);
  BIO_meth_set_ctrl(state_->method, bio_ctrl);
  SSL_CTX_set_app_data(context, &state_->key);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, use_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Channel> TlsContext::make_channel(UniqueFd socket, bool server) const {
  return std::make_unique<TlsChannel>(state_->context, state_->method, std::move(socket), server);
}

}  // namespace cohort
